// A monotonic counter that threads can wait on. A stream has two: how many tasks were queued, and how many have
// finished.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace openreg::driver {

// Waiting first spins for about 20 microseconds, because waking a sleeping thread costs 10 to 60. Spinning yields;
// otherwise it would hold up the very thread that it waits for when both share a core.
//
// No wake-up is lost: the waiter announces itself in wake_at_ and then reads reached_; the other side advances reached_
// and then reads wake_at_. All accesses are sequentially consistent, so at least one sees the other.
class Timeline {
 public:
  // LITERALINCLUDE START: stream-timeline-counter
  [[nodiscard]] uint64_t reached() const noexcept { return reached_.load(); }

  // Advances the counter and wakes the threads that wait for this number. Called by one thread at a time.
  void advance(uint64_t number) noexcept {
    reached_.store(number);
    if (number >= wake_at_.load()) wake_all();
  }

  // Wakes every waiter to recheck its condition, for example whether its wait was canceled.
  void wake_all() noexcept;

  // Waits until the counter has reached the number or `cancelled()` is true. Code that makes it true must call
  // wake_all.
  template <class Cancelled>
  void wait(uint64_t number, Cancelled cancelled) noexcept {
    const auto done = [&] { return reached_.load() >= number || cancelled(); };
    if (done() || spin(done)) return;
    while (true) {
      const uint32_t version = version_.load();
      announce(number);
      if (done()) return;
      sleep(version);
    }
  }
  // LITERALINCLUDE END: stream-timeline-counter

 private:
  static constexpr uint64_t kNever = UINT64_MAX;

  template <class Done>
  static bool spin(Done done) noexcept {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    do {
      for (int i = 0; i < 32; ++i) pause();
      if (done()) return true;
      sched_yield();
    } while (std::chrono::steady_clock::now() < end);
    return done();
  }

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void announce(uint64_t number) noexcept;
  void sleep(uint32_t version) noexcept;

  std::atomic<uint64_t> reached_{0};
  std::atomic<uint64_t> wake_at_{kNever};  // the smallest number that a sleeping thread waits for
  std::atomic<uint32_t> version_{0};  // incremented by every wake-up: the futex word that threads sleep on
};

}  // namespace openreg::driver
