// Waits by polling. A thread inside the driver's own wait cannot run Python's signal handlers; a thread that polls and
// sleeps can, with any driver that reports whether work has finished.
#include "runtime/wait.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "runtime/capture.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

std::atomic<InterruptCheck> interrupt_check{nullptr};
std::atomic<WaitRunner> wait_runner{nullptr};

// LITERALINCLUDE START: wait-who
// The operating system delivers Ctrl-C to the main thread, and Python runs its handlers there alone.
bool is_interruptible() {
  static thread_local const bool is_main_thread = gettid() == getpid();
  return is_main_thread && interrupt_check.load() != nullptr;
}
// LITERALINCLUDE END: wait-who

thread_local int t_interrupt_depth = 0;

// LITERALINCLUDE START: wait-poll
class InInterrupt {
 public:
  InInterrupt() { ++t_interrupt_depth; }
  ~InInterrupt() { --t_interrupt_depth; }
  InInterrupt(const InInterrupt&) = delete;
  InInterrupt& operator=(const InInterrupt&) = delete;
};

using WaitClock = std::chrono::steady_clock;

// Returns false when a signal has interrupted the sleep.
bool sleep_for(std::chrono::nanoseconds duration) {
  const timespec pause{0, static_cast<long>(duration.count())};
  return nanosleep(&pause, nullptr) == 0;
}

// Polls until the answer is not orErrorNotReady. The pauses grow with the time waited, so that a short wait ends soon
// and a long one costs little: it ends late by a sixteenth, and by a millisecond at most.
template <class Query>
void poll(Query query) {
  using namespace std::chrono_literals;
  const auto start = WaitClock::now();
  auto checked = start;
  while (query() == orErrorNotReady) {
    const auto now = WaitClock::now();
    if (now - start < 20us) {
      sched_yield();
      continue;
    }
    const bool slept = sleep_for(std::min<std::chrono::nanoseconds>((now - start) / 16, 1ms));
    // A signal that arrived before the sleep did not interrupt it. Checking takes the GIL, so it is not done each time.
    if (!slept || now - checked > 100ms) {
      checked = now;
      const InInterrupt inside;
      interrupt_check.load()();
    }
  }
}
// LITERALINCLUDE END: wait-poll

// LITERALINCLUDE START: wait-marker
// An event behind the work queued on the stream: the stream itself may never be idle while other threads use it. Errors
// are not reported here, since the driver's own wait follows: without an event this wait ends at once.
class Marker {
 public:
  Marker(orStream_t stream, c10::DeviceIndex device) {
    const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, device));
    made_ = orEventCreateWithFlags(&event_, orEventDisableTiming);
    if (made_ == orSuccess) made_ = orEventRecord(event_, stream);
  }
  ~Marker() {
    if (event_ != nullptr) made_ = orEventDestroy(event_);  // rejected by a failed device
  }
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;

  orError_t query() const { return made_ == orSuccess ? orEventQuery(event_) : made_; }

 private:
  orEvent_t event_ = nullptr;
  orError_t made_;
};
// LITERALINCLUDE END: wait-marker

}  // namespace

int interrupt_depth() noexcept { return t_interrupt_depth; }

void set_interrupt_check(InterruptCheck check) { interrupt_check.store(check); }

void set_wait_runner(WaitRunner runner) { wait_runner.store(runner); }

void wait_without_gil(c10::function_ref<void()> wait) {
  const WaitRunner run = wait_runner.load();
  run != nullptr ? run(wait) : wait();
}

// LITERALINCLUDE START: wait-functions
void wait_for_event(orEvent_t event) {
  if (is_interruptible()) {
    poll([event] { return orEventQuery(event); });
  }
}

void wait_for_stream(orStream_t stream, c10::DeviceIndex device) {
  // A captured stream has nothing to wait for, and a query would break the capture, which may be another thread's.
  if (is_interruptible() && !is_capturing(stream) && orStreamQuery(stream) == orErrorNotReady) {
    const Marker marker(stream, device);
    poll([&marker] { return marker.query(); });
  }
}

void wait_for_device(c10::DeviceIndex device) {
  if (is_interruptible()) {
    for (orStream_t stream : stream_handles(device)) wait_for_stream(stream, device);
  }
}
// LITERALINCLUDE END: wait-functions

}  // namespace openreg
