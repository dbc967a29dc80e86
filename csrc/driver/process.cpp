// Fork and process exit. A forked child has the driver's memory but none of its threads, and perhaps locks that no
// thread will ever release. Its driver is therefore cut off: it returns orErrorForked without taking a lock.
// At exit, static destructors of other libraries may still call the driver, so its state is never destroyed. Only the
// workers end; otherwise they would keep running while the process is torn down.
#include "process.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <type_traits>

#include "driver.h"
#include "error.h"
#include "stream.h"

namespace openreg::driver {
namespace {

pthread_t g_ending_thread;  // set before g_ending
std::atomic<bool> g_ending{false};

// LITERALINCLUDE START: memory-process-fork
void before_fork() { start_mutex().lock(); }

void after_fork_in_parent() { start_mutex().unlock(); }

void after_fork_in_child() {
  start_mutex().unlock();
  cut_off_driver();
}

// At load time, not at the driver's start: a fork that overlaps the start must find the handlers in place.
[[gnu::constructor]] void watch_forks() {
  if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) std::abort();
}
// LITERALINCLUDE END: memory-process-fork

// LITERALINCLUDE START: memory-process-end
void end_workers() {
  Driver* const driver = started_driver();
  if (driver == nullptr) return;  // a forked child has no workers
  g_ending_thread = pthread_self();
  g_ending.store(true);
  driver->for_each_served_stream([](Stream& stream) { stream.wake_all(); });
  driver->for_each_served_stream([](Stream& stream) { stream.stop_worker(); });
}

}  // namespace

std::mutex& start_mutex() {
  static std::mutex mutex;
  static_assert(std::is_trivially_destructible_v<std::mutex>);  // never destroyed: see the top of this file
  return mutex;
}

bool process_is_ending() noexcept { return g_ending.load(); }

bool watch_process_end() noexcept { return std::atexit(end_workers) == 0; }
// LITERALINCLUDE END: memory-process-end

// LITERALINCLUDE START: errors-exit-rest
void rest_if_process_is_ending() noexcept {
  while (process_is_ending() && pthread_equal(g_ending_thread, pthread_self()) == 0) pause();
}
// LITERALINCLUDE END: errors-exit-rest

// LITERALINCLUDE START: errors-exit-dropped
orError_t end_dropped_call() noexcept {
  rest_if_process_is_ending();
  return fail(orErrorDeinitialized, "the process is ending, and the work of this call was dropped");
}
// LITERALINCLUDE END: errors-exit-dropped

}  // namespace openreg::driver
