// How a function of the driver fails: the error is kept for the calling thread, together with a text that names the
// function, what it was given and what is valid.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "openreg.h"

namespace openreg::driver {

// LITERALINCLUDE START: memory-error-call
// The name of the function that the thread is in. The address is the same whenever the thread asks, so that the
// compiler asks once: to look up what belongs to a thread costs as much as a small call.
[[gnu::const]] const char*& current_function() noexcept;

// Names the function that the thread is in, for the texts of `fail`. One stands at the top of every function of the
// interface. They nest, because a kernel that runs on the calling thread may call the driver again.
class Call {
 public:
  explicit Call(const char* function) noexcept
      : current_(current_function()), previous_(std::exchange(current_, function)) {}
  ~Call() { current_ = previous_; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  const char*& current_;
  const char* previous_;
};
// LITERALINCLUDE END: memory-error-call

// Keeps the error and its text, and returns the error.
[[gnu::format(printf, 2, 3)]] orError_t fail(orError_t error, const char* format, ...) noexcept;

// The same for a text of any length, as the log of a compiler is.
orError_t fail_with_log(orError_t error, const char* log) noexcept;

// The same for an error that stays: it is this thread's last error until `resets`, the count of a device's resets,
// moves on from `seen`.
orError_t fail_until_reset(orError_t error, const char* text, const std::atomic<uint64_t>& resets,
                           uint64_t seen) noexcept;

}  // namespace openreg::driver
