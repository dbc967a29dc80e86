// What happens to the driver when its process forks or ends.
#pragma once

#include <mutex>

namespace openreg::driver {

// Held while the driver starts, and across a fork: a child never inherits it locked.
std::mutex& start_mutex();

// True from the moment the process began to exit: workers end, queued work is dropped, and nothing waits any more.
[[nodiscard]] bool process_is_ending() noexcept;

// For a thread that has waited for the device. While the process ends it does not return, but on the thread that ends
// it: the code that waited is being taken down, and is no place to go back to.
void rest_if_process_is_ending() noexcept;

// Arranges that the end of the process ends the workers. Called once, when the driver starts.
// Returns false when the host cannot.
[[nodiscard]] bool watch_process_end() noexcept;

}  // namespace openreg::driver
