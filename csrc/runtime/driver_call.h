// Calls of the driver that a profiler shows: what queues work, what waits, what allocates. Called on any thread, also
// by code that knows nothing of PyTorch.
//
// Where the driver reports its own calls to a profiler, as CUPTI does for CUDA, none of this is needed.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: driver-call-observer
// Whoever records the calls. Both functions run on the calling thread, which may hold locks: they must not wait, nor
// call the driver, except for orActivitySetCorrelation.
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

// Null while nobody records. An observer is never destroyed, since a thread may be about to tell it of a call.
OPENREG_EXPORT extern std::atomic<CallObserver*> call_observer;
// LITERALINCLUDE END: driver-call-observer

// LITERALINCLUDE START: driver-call-scope
// Lives as long as one call of the driver. `function` is a string literal: the name of the row in a trace. Costs a load
// and a branch while nobody records.
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
