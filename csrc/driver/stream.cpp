// Runs work in order: the ring, the worker thread that serves it, and the choice of the thread that runs a task.
#include "stream.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "capture.h"
#include "device.h"
#include "error.h"
#include "handle_table.h"
#include "process.h"

namespace openreg::driver {
namespace {

// LITERALINCLUDE START: stream-inside-kernel
thread_local bool t_inside_kernel = false;

[[gnu::const, gnu::noinline]] bool& inside_kernel_flag() noexcept { return t_inside_kernel; }

class InsideKernel {
 public:
  InsideKernel() noexcept { flag_ = true; }
  ~InsideKernel() { flag_ = false; }
  InsideKernel(const InsideKernel&) = delete;
  InsideKernel& operator=(const InsideKernel&) = delete;

 private:
  bool& flag_ = inside_kernel_flag();  // looked up once, as in Call
};
// LITERALINCLUDE END: stream-inside-kernel

// LITERALINCLUDE START: stream-signals
// Blocks process-directed signals for a thread that is about to start, since the application's own threads handle
// those. Signals that report a fault of the thread itself stay unblocked; otherwise a fault would end the process
// without a message.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_;
};
// LITERALINCLUDE END: stream-signals

// LITERALINCLUDE START: stream-release
// Releases a task at the end of the scope, unless the queue has taken it over.
class ReleasedUnlessQueued {
 public:
  explicit ReleasedUnlessQueued(Task& task) noexcept : task_(&task) {}
  ~ReleasedUnlessQueued() {
    if (task_ != nullptr) release(*task_);
  }
  ReleasedUnlessQueued(const ReleasedUnlessQueued&) = delete;
  ReleasedUnlessQueued& operator=(const ReleasedUnlessQueued&) = delete;

  void dismiss() noexcept { task_ = nullptr; }

 private:
  Task* task_;
};
// LITERALINCLUDE END: stream-release

}  // namespace

bool inside_kernel() noexcept { return t_inside_kernel; }

// LITERALINCLUDE START: stream-take-over
void release(Task& task) {
  const InsideKernel inside;
  task.release();
}

bool keep(Task& task) {
  const InsideKernel inside;
  return task.keep();
}
// LITERALINCLUDE END: stream-take-over

// LITERALINCLUDE START: stream-begin-and-end
uint64_t Stream::begin(Device& device, uint32_t index, int priority) {
  const std::lock_guard lock(submit_);
  if (device_ == nullptr) {  // once: a thread with a stale handle may be reading them when the object is reused
    device_ = &device;
    index_ = index;
  }
  priority_.store(priority);
  return generation.fetch_add(1) + 1;
}

orError_t Stream::end(uint64_t expected_generation) {
  std::shared_ptr<Graph> recorded;  // declared first, to be destroyed after unlocking
  std::unique_lock lock(submit_);
  if (const orError_t error = expect(expected_generation)) return error;
  if (!wait(queued())) {
    lock.unlock();              // NOT PROVEN: tests/driver/process_end.cpp does it while the process ends
    return end_dropped_call();  // NOT PROVEN: as above
  }
  generation.fetch_add(1);
  if (Capture* const capture = active_capture()) recorded = leave(*capture);
  stop_worker();
  served_ = false;
  return orSuccess;
}
// LITERALINCLUDE END: stream-begin-and-end

// LITERALINCLUDE START: driver-submit
orError_t Stream::submit(uint64_t expected_generation, Task task, Placement placement, uint64_t* sequence,
                         const char* not_captured) {
  ReleasedUnlessQueued pending(task);  // declared first, to release after unlocking: that may take the owner's locks
  std::unique_lock lock(submit_);
  const auto drop = [&lock] {
    lock.unlock();              // NOT PROVEN: tests/driver/process_end.cpp does it while the process ends
    return end_dropped_call();  // NOT PROVEN: as above
  };
  *sequence = queued();
  if (const orError_t error = expect(expected_generation)) return error;
  if (Capture* const capture = active_capture()) {
    // The caller has looked before; this capture has begun since.
    if (not_captured != nullptr) return refuse_captured(*capture, not_captured);
    if (!keep(task)) return unserved();
    if (const orError_t error = capture->add(*this, task, placement)) return error;
    pending.dismiss();
    return orSuccess;
  }
  if (recording()) task.record(correlation());
  if (placement == Placement::kCaller && !wait(*sequence)) return drop();
  if (placement != Placement::kQueue && idle()) {
    run(task);
    return process_is_ending() ? drop() : orSuccess;
  }
  if (!served_ && !start_worker()) return process_is_ending() ? drop() : unserved();
  if (*sequence >= kSlots && !wait(*sequence + 1 - kSlots)) return drop();  // the ring is full, and stays full
  if (process_is_ending()) return drop();
  if (!keep(task)) return unserved();
  ring_[*sequence % kSlots] = task;
  pending.dismiss();
  queued_.advance(++*sequence);
  return orSuccess;
}
// LITERALINCLUDE END: driver-submit

// LITERALINCLUDE START: stream-waiting
bool Stream::wait(uint64_t sequence) noexcept {
  finished_.wait(sequence, [] { return process_is_ending(); });
  return passed(sequence);
}

void Stream::wait_for(const Device& waiter, uint64_t resets, uint64_t sequence) noexcept {
  finished_.wait(sequence, [&] { return waiter.stopping_since(resets); });
}

void Stream::wake_all() noexcept {
  queued_.wake_all();
  finished_.wake_all();
}

orStream_t Stream::handle(uint64_t of_generation) const noexcept {
  return reinterpret_cast<orStream_t>(Handle{HandleKind::kStream, device_->index, index_, of_generation}.pack());
}

bool Stream::drain() {
  const std::lock_guard lock(submit_);
  return wait(queued());
}
// LITERALINCLUDE END: stream-waiting

// LITERALINCLUDE START: stream-capture
Capture* Stream::active_capture() {
  if (capture_ != nullptr && capture_->is_over()) {
    set_capture(nullptr);
    may_be_captured_.store(false);
  }
  return capture_.get();
}

// Not with submit_, which a thread holds while it waits for a kernel: the kernel may ask, too.
std::shared_ptr<Capture> Stream::capture() {
  if (!may_be_captured_.load()) return nullptr;
  const std::lock_guard lock(capture_mutex_);
  return capture_ != nullptr && !capture_->is_over() ? capture_ : nullptr;
}

std::shared_ptr<Capture> Stream::set_capture(std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(capture_mutex_);
  return std::exchange(capture_, std::move(capture));
}

// The stream ends, by a reset of its device, and the capture can no longer become a graph. Returns what was recorded.
std::shared_ptr<Graph> Stream::leave(Capture& capture) {
  const std::shared_ptr<Capture> kept = set_capture(nullptr);
  capture.invalidate("a stream of the capture was destroyed");
  return &capture.origin() == this ? capture.abandon() : nullptr;
}

orError_t Stream::join_capture(uint64_t expected_generation, const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(submit_);
  if (const orError_t error = expect(expected_generation)) return error;
  const Capture* const present = active_capture();
  if (present != nullptr && present != capture.get()) {
    return fail(orErrorInvalidValue, "the stream is being captured already");
  }
  set_capture(capture);
  may_be_captured_.store(true);
  return orSuccess;
}
// LITERALINCLUDE END: stream-capture

// LITERALINCLUDE START: stream-refusals
orError_t Stream::expect(uint64_t expected_generation) const {
  if (generation.load() == expected_generation) return orSuccess;
  return fail(orErrorInvalidHandle, "the stream no longer exists");
}

orError_t Stream::unserved() const {
  return fail(orErrorMemoryAllocation, "the host has no thread or no memory to serve stream %u of openreg:%d", index_,
              device_->index);
}
// LITERALINCLUDE END: stream-refusals

// LITERALINCLUDE START: stream-worker-start
bool Stream::start_worker() {
  const std::lock_guard lock(worker_mutex_);
  if (ring_ == nullptr) ring_.reset(new (std::nothrow) Task[kSlots]);
  if (ring_ == nullptr) return false;
  if (!listed_) {
    device_->list_served(*this, &next_served_);
    listed_ = true;
  }
  // After listing: if the process ends meanwhile, either its exit handler finds the stream in the list, or this check
  // sees it.
  if (process_is_ending()) return false;
  try {
    const SignalsBlocked blocked;
    worker_ = std::thread([this] { serve(); });
  } catch (const std::exception&) {  // no thread, or no memory for one
    return false;
  }
  served_ = true;
  return true;
}
// LITERALINCLUDE END: stream-worker-start

// LITERALINCLUDE START: stream-worker-loop
void Stream::stop_worker() {
  const std::lock_guard lock(worker_mutex_);
  if (!worker_.joinable()) return;
  stop_.store(true);
  queued_.wake_all();
  worker_.join();
  stop_.store(false);
}

void Stream::serve() {
  char name[16];
  std::snprintf(name, sizeof(name), "openreg:%d/%u", device_->index, index_);
  pthread_setname_np(pthread_self(), name);
  for (uint64_t next = finished_.reached() + 1;; ++next) {
    queued_.wait(next, [&] { return stop_.load(); });
    if (queued_.reached() < next) return;
    Task& task = ring_[(next - 1) % kSlots];
    run(task);
    release(task);
    // Work that the end of the process drops or cuts short never passes, so that its waiters get an error. That of a
    // device that fails or is reset passes, and its waiters ask.
    if (process_is_ending()) continue;
    if (!device_->runs_work()) mark_dropped(next);
    finished_.advance(next);
  }
}

void Stream::mark_dropped(uint64_t sequence) noexcept {
  const std::lock_guard lock(dropped_mutex_);
  Range& latest = dropped_[(ranges_ + dropped_.size() - 1) % dropped_.size()];
  if (ranges_ > 0 && latest.last + 1 == sequence) {
    latest.last = sequence;
  } else {
    dropped_[ranges_++ % dropped_.size()] = Range{sequence, sequence};
  }
}

bool Stream::dropped(uint64_t sequence) const noexcept {
  const std::lock_guard lock(dropped_mutex_);
  return std::ranges::any_of(dropped_,
                             [&](const Range& range) { return range.first <= sequence && sequence <= range.last; });
}

void Stream::run(Task& task) {
  const InsideKernel inside;
  if (!device_->runs_work()) return;
  if (!task.recorded()) return task.run(*device_);
  task.run_reported(*device_, handle(generation.load()), task.correlation());
}

void Task::run_reported(Device& device, orStream_t stream, uint64_t correlation) {
  if (functions_->run_reported != nullptr) return functions_->run_reported(payload_, device, stream, correlation);
  if (!has_activity()) return run(device);
  const int64_t begin = activity_clock();
  run(device);
  const Activity done = activity();
  report_activity(
      {done.kind, device.index, stream, correlation, begin, activity_clock(), done.bytes, done.copy_kind, done.name});
}
// LITERALINCLUDE END: stream-worker-loop

}  // namespace openreg::driver
