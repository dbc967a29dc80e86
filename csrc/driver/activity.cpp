// Starts and stops recording.
#include "activity.h"

#include <chrono>
#include <mutex>

#include "driver.h"
#include "error.h"

namespace openreg::driver {

std::atomic<bool> g_recording{false};

namespace {

thread_local uint64_t t_correlation = 0;

std::mutex g_mutex;  // held while recording starts or stops
// Changed only while nothing is recorded.
void (*g_function)(const orActivity* activity, void* user) = nullptr;
void* g_user = nullptr;

}  // namespace

// LITERALINCLUDE START: activity-report
uint64_t correlation() noexcept { return t_correlation; }

int64_t activity_clock() noexcept {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void report_activity(const orActivity& activity) { g_function(&activity, g_user); }
// LITERALINCLUDE END: activity-report

}  // namespace openreg::driver

using namespace openreg::driver;

// LITERALINCLUDE START: activity-start
orError_t orActivityStart(void (*function)(const orActivity* activity, void* user), void* user) {
  const Call call("orActivityStart");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  if (function == nullptr) return fail(orErrorInvalidValue, "function is null");
  const std::lock_guard lock(g_mutex);
  if (recording()) return fail(orErrorInvalidValue, "it is being recorded already; call orActivityStop first");
  g_function = function;
  g_user = user;
  g_recording.store(true, std::memory_order_release);
  return orSuccess;
}
// LITERALINCLUDE END: activity-start

// LITERALINCLUDE START: activity-stop
orError_t orActivityStop() {
  const Call call("orActivityStop");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  std::unique_lock lock(g_mutex);
  if (!recording()) return fail(orErrorInvalidValue, "nothing is being recorded; call orActivityStart first");
  g_recording.store(false);
  // A submission reads recording() with its stream's lock held: drain() waits for one that still read true.
  bool drained = true;
  for (Device& device : driver->devices) {
    device.streams.for_each_alive([&](Stream& stream, uint32_t, uint64_t) { drained = stream.drain() && drained; });
  }
  lock.unlock();  // at the end of the process the next call never returns on this thread
  return drained ? orSuccess : end_dropped_call();
}

orError_t orActivitySetCorrelation(uint64_t correlation) {
  t_correlation = correlation;
  return orSuccess;
}
// LITERALINCLUDE END: activity-stop
