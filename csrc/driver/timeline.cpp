// Sleeping and waking by futex. std::atomic::wait would do, but it wakes all waiters at every step of the counter; here
// a thread that waits for the thousandth task is not woken by the 999 before it.
#include "timeline.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace openreg::driver {

// LITERALINCLUDE START: stream-timeline-sleep
void Timeline::wake_all() noexcept {
  wake_at_.store(kNever);
  version_.fetch_add(1);
  syscall(SYS_futex, &version_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Timeline::announce(uint64_t number) noexcept {
  uint64_t current = wake_at_.load();
  while (number < current && !wake_at_.compare_exchange_weak(current, number)) {
  }
}

void Timeline::sleep(uint32_t version) noexcept {
  // Returns at once if the version has changed, and may return early: the caller rechecks in every case.
  syscall(SYS_futex, &version_, FUTEX_WAIT_PRIVATE, version, nullptr, nullptr, 0);
}
// LITERALINCLUDE END: stream-timeline-sleep

}  // namespace openreg::driver
