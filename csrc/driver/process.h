// What happens to the driver when its process forks or ends.
#pragma once

#include <mutex>

namespace openreg::driver {

// Held while the driver starts, and across a fork: a child never inherits it locked.
std::mutex& start_mutex();

// True from the moment the process began to exit: workers end, queued work is dropped, and nothing waits any more.
[[nodiscard]] bool process_is_ending() noexcept;

// Arranges that the end of the process ends the workers. Called once, when the driver starts.
// Returns false when the host cannot.
[[nodiscard]] bool watch_process_end() noexcept;

}  // namespace openreg::driver
