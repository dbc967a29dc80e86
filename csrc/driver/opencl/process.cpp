// Fork and process exit. A forked child has the memory of this driver and of the platform's library, but none of their
// threads. Its driver is cut off: it returns orErrorForked without taking a lock. At exit, the platform's library runs
// static destructors of its own. This driver was started after the library was loaded, so its exit handler runs first:
// it empties all queues, and later calls do not reach OpenCL.
#include "process.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "../error.h"
#include "driver.h"

namespace openreg::driver::opencl {
namespace {

pthread_t g_ending_thread;  // set before g_ending
std::atomic<bool> g_ending{false};
std::atomic<bool> g_ended{false};

void before_fork() {
  if (!starting()) start_mutex().lock();
}

void after_fork_in_parent() {
  if (!starting()) start_mutex().unlock();
}

void after_fork_in_child() {
  if (!starting()) start_mutex().unlock();
  cut_off_driver();
}

[[gnu::constructor]] void watch_forks() {
  if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) std::abort();
}

// LITERALINCLUDE START: opencl-exit
// OpenCL cannot cancel queued work. Sleeping kernels are cut short, and the rest runs to completion.
void finish_devices() {
  Driver* const driver = started_driver();
  if (driver == nullptr) return;  // a forked child has no queues
  g_ending_thread = pthread_self();
  g_ending.store(true);
  driver->sleeps.hurry();
  driver->host_functions.hurry();
  driver->streams.for_each([](const auto& stream) { stream->finish(); });
  driver->sleeps.stop();
  driver->host_functions.stop();
  g_ended.store(true);
}
// LITERALINCLUDE END: opencl-exit

}  // namespace

std::mutex& start_mutex() {
  static std::mutex mutex;  // trivially destructible
  return mutex;
}

bool& starting() noexcept {
  static thread_local bool value = false;
  return value;
}

bool process_is_ending() noexcept { return g_ending.load(); }

bool process_has_ended() noexcept { return g_ended.load(); }

bool watch_process_end() noexcept { return std::atexit(finish_devices) == 0; }

void rest_if_process_is_ending() noexcept {
  while (process_is_ending() && pthread_equal(g_ending_thread, pthread_self()) == 0) pause();
}

orError_t end_refused_call() noexcept {
  rest_if_process_is_ending();
  return fail(orErrorDeinitialized, "the process is ending, and the device takes no more work");
}

}  // namespace openreg::driver::opencl
