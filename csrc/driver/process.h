// What happens to the driver when its process forks or ends.
#pragma once

#include <mutex>

#include "openreg.h"

namespace openreg::driver {

// Held while the driver starts, and across a fork: a child never inherits it locked.
std::mutex& start_mutex();

// True from the moment the process began to exit: workers end, queued work is dropped, and nothing waits any more.
[[nodiscard]] bool process_is_ending() noexcept;

// For a thread that has waited for the device. While the process ends it does not return, but on the thread that ends
// it, where all workers have ended: elsewhere a worker may still use the memory that the caller would give back, and
// the code that waited is being taken down. Requires: the thread holds no lock of the driver.
void rest_if_process_is_ending() noexcept;

// Ends a call whose work was dropped, since the process is ending: with an error, or, on other threads than the one
// that ends the process, never. Requires: the thread holds no lock of the driver.
orError_t end_dropped_call() noexcept;

// Arranges that the end of the process ends the workers. Called once, when the driver starts.
// Returns false when the host cannot.
[[nodiscard]] bool watch_process_end() noexcept;

}  // namespace openreg::driver
