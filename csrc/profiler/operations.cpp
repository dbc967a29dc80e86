// Two small stacks per thread, of operators and of ranges. Called at the start and end of each operator while a profile
// runs.
#include "profiler/operations.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "driver/openreg_activity.h"
#include "runtime/error.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: profiler-number-stack
// No destructor and no allocation: a thread may still free tensors while it exits. Work nested deeper than kRoom is
// attributed to the deepest number that was stored.
class NumberStack {
 public:
  void push(uint64_t number) noexcept {
    if (depth_ < numbers_.size()) numbers_[depth_] = static_cast<uint32_t>(number);
    ++depth_;
  }
  // An operator that was entered before the profile began is left without having been pushed.
  void pop() noexcept {
    if (depth_ > 0) --depth_;
  }
  void clear() noexcept { depth_ = 0; }
  uint32_t top() const noexcept {
    return depth_ == 0 ? 0 : numbers_[depth_ <= numbers_.size() ? depth_ - 1 : numbers_.size() - 1];
  }

 private:
  static constexpr size_t kRoom = 64;
  std::array<uint32_t, kRoom> numbers_{};
  size_t depth_ = 0;
};
// LITERALINCLUDE END: profiler-number-stack

// LITERALINCLUDE START: profiler-thread-operations
struct ThreadOperations {
  uint64_t profile = 0;
  NumberStack operators;
  NumberStack ranges;

  Operations current() const noexcept {
    const uint32_t range = ranges.top();
    const uint32_t innermost = operators.top();
    return {innermost != 0 ? innermost : range, range};
  }
};

std::atomic<uint64_t> current_profile{0};
thread_local ThreadOperations t_operations;

ThreadOperations& of_this_thread() noexcept {
  ThreadOperations& own = t_operations;
  if (const uint64_t now = current_profile.load(std::memory_order_relaxed); own.profile != now) {
    own.profile = now;
    own.operators.clear();
    own.ranges.clear();
  }
  return own;
}

// The driver rejects none of these calls: they only store a number.
void tell_driver(const ThreadOperations& own) {
  check(orActivitySetCorrelation(correlation_of(own.current().operation, 0)));
}
// LITERALINCLUDE END: profiler-thread-operations

}  // namespace

// LITERALINCLUDE START: profiler-enter-and-leave
void enter_operator(uint64_t number) {
  ThreadOperations& own = of_this_thread();
  own.operators.push(number);
  tell_driver(own);
}

void leave_operator() {
  ThreadOperations& own = of_this_thread();
  own.operators.pop();
  tell_driver(own);
}

void enter_range(uint64_t number) {
  ThreadOperations& own = of_this_thread();
  own.ranges.push(number);
  tell_driver(own);
}

void leave_range() {
  ThreadOperations& own = of_this_thread();
  own.ranges.pop();
  tell_driver(own);
}

Operations current_operations() noexcept { return of_this_thread().current(); }

void forget_operations() noexcept { current_profile.fetch_add(1); }
// LITERALINCLUDE END: profiler-enter-and-leave

}  // namespace openreg
