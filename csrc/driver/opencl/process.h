// What happens to the driver when its process forks or ends.
#pragma once

#include <mutex>

#include "../openreg.h"

namespace openreg::driver::opencl {

// Held while the driver starts, and across a fork: a child never inherits it locked.
std::mutex& start_mutex();

// True from the moment the process began to exit: holds end at once, and new work is refused.
[[nodiscard]] bool process_is_ending() noexcept;
// True when all queues are empty and OpenCL must not be called any more: its static destructors come next.
[[nodiscard]] bool process_has_ended() noexcept;

// For a thread that has waited for the device. While the process ends it does not return, but on the thread that ends
// it: the code that waited is being taken down. Requires: the thread holds no lock of the driver.
void rest_if_process_is_ending() noexcept;

// Ends a call that brought work while the process is ending: with an error, or, on other threads than the one that ends
// the process, never. Requires: the thread holds no lock of the driver.
orError_t end_refused_call() noexcept;

// Arranges that the end of the process waits for the devices. Called once, when the driver starts, after the platform's
// library was loaded: exit handlers run in the reverse order. Returns false when the host cannot.
[[nodiscard]] bool watch_process_end() noexcept;

}  // namespace openreg::driver::opencl
