// How a driver function fails: the calling thread keeps the error, with a text that names the function, its arguments
// and the valid values.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <utility>

#include "openreg.h"

namespace openreg::driver {

// LITERALINCLUDE START: memory-error-call
// The name of the function that the thread is executing. The address never changes within a thread, so the compiler may
// look it up once: a thread-local lookup costs as much as a small call.
[[gnu::const]] const char*& current_function() noexcept;

// Sets the function that the thread is executing, for the texts of `fail`. Every interface function begins with one.
// They nest, because a kernel that runs on the calling thread may call the driver.
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

// Stores the error and its text, and returns the error.
[[gnu::format(printf, 2, 3)]] orError_t fail(orError_t error, const char* format, ...) noexcept;

// The same for a text of any length, such as a compiler log.
orError_t fail_with_log(orError_t error, const char* log) noexcept;

// The same for a sticky error: it remains this thread's last error until `resets`, the reset count of a device, differs
// from `seen`.
orError_t fail_until_reset(orError_t error, const char* text, const std::atomic<uint64_t>& resets,
                           uint64_t seen) noexcept;

// LITERALINCLUDE START: modules-no-memory
// Calls the function, and returns an error if it throws: when the host runs out of memory, or a size is impossible.
template <class Function>
orError_t guarded(Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {  // NOT PROVEN: needs such a host
    return fail(orErrorMemoryAllocation, "the host has no memory left");  // NOT PROVEN: as above
  } catch (const std::exception& error) {  // NOT PROVEN: tests/driver/test_modules.py passes a size of 2^63
    return fail(orErrorInvalidValue, "%s", error.what());  // NOT PROVEN: as above
  }
}
// LITERALINCLUDE END: modules-no-memory

}  // namespace openreg::driver
