// Runs the items of a group as fibers: threads that the program itself switches. All items start on one fiber, one
// after the other; an item that waits at a barrier keeps its fiber, and the next item gets another. Items that never
// wait therefore cost no switch.
#include "work_group.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <new>
#include <utility>

#include "device.h"

namespace openreg::driver {
namespace {

// LITERALINCLUDE START: groups-fiber
// The stack of a work-item. Unused pages take no memory; the lowest page faults, so that an oversized array ends the
// process instead of corrupting other memory. Kernels are compiled to touch each page of such an array in turn, or it
// could step over that page.
class Stack {
 public:
  static constexpr size_t kBytes = size_t{256} << 10;

  Stack() : start_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (is_mapped()) is_guarded_ = mprotect(start_, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE) == 0;
  }
  ~Stack() {
    if (is_mapped()) munmap(start_, kBytes);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  [[nodiscard]] bool ready() const noexcept { return is_guarded_; }
  [[nodiscard]] void* start() const noexcept { return start_; }

 private:
  [[nodiscard]] bool is_mapped() const noexcept { return start_ != MAP_FAILED; }

  void* const start_;
  bool is_guarded_ = false;
};

struct Fiber : device_code::Item {
  Stack stack;
  bool begun = false;  // whether `place` can be resumed
  jmp_buf place{};
  bool waits = false;  // at a barrier
};
// LITERALINCLUDE END: groups-fiber

// LITERALINCLUDE START: groups-runner
class Group {
 public:
  Group(const device_code::Function& function, const orLaunchConfig& config, void* const* arguments)
      : function_(function),
        config_(config),
        arguments_(arguments),
        size_(config.group_size[0] * config.group_size[1] * config.group_size[2]) {}

  // Runs the items of one group. False on failure; message() then says why.
  bool run(const std::array<unsigned, 3>& group);
  [[nodiscard]] const char* message() const noexcept { return message_; }

 private:
  static void serve_fiber();
  static void wait(device_code::Item& item);

  bool run_items();
  bool start_items();
  bool resume_items();
  Fiber* next_fiber();
  bool diverged(size_t waiting);
  void switch_to(Fiber& fiber);
  void begin(Fiber& fiber);
  void switch_back(Fiber& fiber);
  void run_on(Fiber& fiber);

  const device_code::Function& function_;
  const orLaunchConfig& config_;
  void* const* const arguments_;
  const size_t size_;
  std::array<unsigned, 3> group_{};
  size_t started_ = 0;  // items of the current group that have started
  std::array<unsigned, 3> next_{};  // position of the next one
  size_t waiting_ = 0;  // how many fibers, from the first on, hold an item
  jmp_buf scheduler_{};
  Fiber* current_ = nullptr;
  char message_[256] = "";
};

thread_local Group* t_group = nullptr;
thread_local bool t_keeps_fibers = true;  // false when the thread ends: an exit handler may still launch
struct Fibers : std::deque<Fiber> {
  ~Fibers() { t_keeps_fibers = false; }
};
// Kept for later launches on the thread.
thread_local Fibers t_fibers;
// LITERALINCLUDE END: groups-runner

// LITERALINCLUDE START: groups-switch
// makecontext() gives a fiber its stack, once. Later switches are jumps, which, unlike swapcontext(), make no system
// call.
void Group::switch_to(Fiber& fiber) {
  current_ = &fiber;
  fiber.waits = false;
  if (_setjmp(scheduler_) != 0) return;  // switched back
  if (fiber.begun) _longjmp(fiber.place, 1);
  begin(fiber);
}

void Group::begin(Fiber& fiber) {
  fiber.begun = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.start();
  context.uc_stack.ss_size = Stack::kBytes;
  makecontext(&context, serve_fiber, 0);
  setcontext(&context);
}

void Group::switch_back(Fiber& fiber) {
  if (_setjmp(fiber.place) == 0) _longjmp(scheduler_, 1);
}

// The body of a fiber, for one group after the other.
void Group::serve_fiber() {
  while (true) {
    Fiber& fiber = *t_group->current_;
    t_group->run_on(fiber);
    t_group->switch_back(fiber);
  }
}

void Group::run_on(Fiber& fiber) {
  std::copy_n(config_.groups, 3, fiber.groups);
  std::copy_n(config_.group_size, 3, fiber.group_size);
  std::copy_n(group_.data(), 3, fiber.group);
  fiber.wait = wait;
  while (started_ < size_) {
    std::copy_n(next_.data(), 3, fiber.local);
    ++started_;
    for (size_t d = 0; d < 3 && ++next_[d] == config_.group_size[d]; ++d) next_[d] = 0;
    function_.run(fiber, arguments_);
  }
}

void Group::wait(device_code::Item& item) {
  auto& fiber = static_cast<Fiber&>(item);
  fiber.waits = true;
  t_group->switch_back(fiber);
}
// LITERALINCLUDE END: groups-switch

// LITERALINCLUDE START: groups-barrier
// Runs every item up to its first barrier, or to its end.
bool Group::start_items() {
  started_ = waiting_ = 0;
  next_ = {};
  while (started_ < size_) {
    Fiber* const fiber = next_fiber();
    if (fiber == nullptr) {
      std::snprintf(message_, sizeof(message_),  // NOT PROVEN: tests/driver/test_modules.py takes the memory away
                    "the host has no memory for a group of %zu work-items", size_);  // NOT PROVEN: as above
      return false;  // NOT PROVEN: as above
    }
    switch_to(*fiber);
    if (fiber->waits) ++waiting_;
  }
  return waiting_ == 0 || waiting_ == size_ || diverged(waiting_);
}

// The one behind those that hold an item. Null when the host has no memory for another.
Fiber* Group::next_fiber() {
  if (!t_keeps_fibers) return nullptr;
  if (waiting_ < t_fibers.size()) return &t_fibers[waiting_];
  try {
    t_fibers.emplace_back();
  } catch (const std::bad_alloc&) {  // NOT PROVEN: as below
    return nullptr;                  // NOT PROVEN: as below
  }
  if (t_fibers.back().stack.ready()) return &t_fibers.back();
  t_fibers.pop_back();  // NOT PROVEN: tests/driver/test_modules.py takes the memory away
  return nullptr;       // NOT PROVEN: as above
}

// Resumes every item at the barrier where all wait, and runs it to the next barrier or to its end.
bool Group::resume_items() {
  size_t waiting = 0;
  for (size_t i = 0; i < size_; ++i) {
    switch_to(t_fibers[i]);
    if (t_fibers[i].waits) ++waiting;
  }
  waiting_ = waiting;
  return waiting == 0 || waiting == size_ || diverged(waiting);
}

// On hardware such a group hangs.
bool Group::diverged(size_t waiting) {
  std::snprintf(message_, sizeof(message_),
                "%zu of %zu work-items of group (%u, %u, %u) wait at a barrier, and the others have ended without it",
                waiting, size_, group_[0], group_[1], group_[2]);
  return false;
}

bool Group::run(const std::array<unsigned, 3>& group) {
  group_ = group;
  Group* const outer = std::exchange(t_group, this);
  const bool good = run_items();
  t_group = outer;
  // Items that were abandoned midway must not go on in a later launch: their fibers start afresh.
  if (!good) {
    for (Fiber& fiber : t_fibers) fiber.begun = false;
  }
  return good;
}

bool Group::run_items() {
  bool good = start_items();
  while (good && waiting_ > 0) good = resume_items();
  return good;
}
// LITERALINCLUDE END: groups-barrier

}  // namespace

// LITERALINCLUDE START: groups-all
bool run_groups(Device& device, const device_code::Function& function, const orLaunchConfig& config,
                void* const* arguments, char* message, size_t message_bytes) {
  Group group(function, config, arguments);
  for (unsigned z = 0; z < config.groups[2]; ++z) {
    for (unsigned y = 0; y < config.groups[1]; ++y) {
      for (unsigned x = 0; x < config.groups[0]; ++x) {
        if (device.stopping()) return true;
        if (group.run({x, y, z})) continue;
        std::snprintf(message, message_bytes, "%s", group.message());
        return false;
      }
    }
  }
  return true;
}
// LITERALINCLUDE END: groups-all

}  // namespace openreg::driver
