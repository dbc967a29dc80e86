// How the driver handles fork and process exit.
#pragma once

#include <mutex>

#include "openreg.h"

namespace openreg::driver {

// Held while the driver starts and across a fork, so that a child never inherits it locked.
std::mutex& start_mutex();

// True once the process has begun to exit: workers end, queued work is dropped, and nothing waits any more.
[[nodiscard]] bool process_is_ending() noexcept;

// For a thread that has waited for the device. While the process is ending, it returns only on the thread that ends it,
// where all workers have ended: elsewhere a worker may still use memory that the caller would free, and the code that
// waited is being torn down. Requires: the thread holds no lock of the driver.
void rest_if_process_is_ending() noexcept;

// Ends a call whose work was dropped because the process is ending: returns an error on the thread that ends the
// process, and never returns on others. Requires: the thread holds no lock of the driver.
orError_t end_dropped_call() noexcept;

// Registers an exit handler that ends the workers. Called once, when the driver starts.
// Returns false if the host refuses.
[[nodiscard]] bool watch_process_end() noexcept;

}  // namespace openreg::driver
