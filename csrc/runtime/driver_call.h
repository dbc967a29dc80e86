// Driver calls that a profiler shows: those that queue work, wait or allocate. Called on any thread, also by code that
// does not depend on PyTorch.
//
// If the driver reports its own calls to a profiler, as CUPTI does for CUDA, none of this is needed.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: driver-call-observer
// Records driver calls. Both functions run on the calling thread, which may hold locks: they must not wait, nor call
// the driver, except for orActivitySetCorrelation.
class CallObserver {
 public:
  struct Start {
    int64_t nanoseconds = 0;
    uint32_t number = 0;
  };
  virtual Start begin() noexcept = 0;
  virtual void end(const char* function, const Start& start) noexcept = 0;

 protected:
  ~CallObserver() = default;
};

// Null while nothing is recorded. An observer is never destroyed, since a thread may be about to call it.
OPENREG_EXPORT extern std::atomic<CallObserver*> call_observer;
// LITERALINCLUDE END: driver-call-observer

// LITERALINCLUDE START: driver-call-scope
// Spans one driver call. `function` is a string literal: the call's name in a trace. Costs a load and a branch while
// nothing is recorded.
class DriverCall {
 public:
  explicit DriverCall(const char* function) noexcept
      : observer_(call_observer.load(std::memory_order_acquire)), function_(function) {
    if (observer_ != nullptr) [[unlikely]] {
      start_ = observer_->begin();
    }
  }
  ~DriverCall() {
    if (observer_ != nullptr) [[unlikely]] {
      observer_->end(function_, start_);
    }
  }
  DriverCall(const DriverCall&) = delete;
  DriverCall& operator=(const DriverCall&) = delete;

 private:
  CallObserver* const observer_;
  const char* const function_;
  CallObserver::Start start_;
};
// LITERALINCLUDE END: driver-call-scope

}  // namespace openreg
