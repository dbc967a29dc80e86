// How the driver handles fork and process exit.
#pragma once

#include <mutex>

#include "../openreg.h"

namespace openreg::driver::opencl {

// Held while the driver starts and across a fork, so that a child never inherits it locked.
std::mutex& start_mutex();
// Whether the calling thread is starting the driver, and holds the mutex. A platform may fork a helper meanwhile, and
// the fork must not take the mutex again.
bool& starting() noexcept;

// True once the process has begun to exit: holds end at once, and new work is rejected.
[[nodiscard]] bool process_is_ending() noexcept;
// True once all queues are empty and OpenCL must not be called any more: its static destructors come next.
[[nodiscard]] bool process_has_ended() noexcept;

// For a thread that has waited for the device. While the process is ending, it returns only on the thread that ends it:
// elsewhere the code that waited is being torn down. Requires: the thread holds no lock of the driver.
void rest_if_process_is_ending() noexcept;

// Ends a call that submits work while the process is ending: returns an error on the thread that ends the process, and
// never returns on others. Requires: the thread holds no lock of the driver.
orError_t end_refused_call() noexcept;

// Registers an exit handler that waits for the devices. Called once, when the driver starts, after the platform's
// library was loaded: exit handlers run in reverse order. Returns false if the host refuses.
[[nodiscard]] bool watch_process_end() noexcept;

}  // namespace openreg::driver::opencl
