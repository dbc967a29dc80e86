// Activities: OpenCL timestamps every command with the device's clock, and the driver reads the times when it sees that
// the command has ended. The device's clock is compared with the host's when recording starts.
#include "activity.h"

#include <atomic>
#include <limits>
#include <mutex>
#include <vector>

#include "driver.h"

namespace openreg::driver::opencl {
namespace {

struct Recorder {
  void (*function)(const orActivity*, void*) = nullptr;
  void* user = nullptr;
  std::vector<int64_t> offsets;  // of each device: nanoseconds from its clock to the host's
};

std::atomic<bool> g_recording{false};
std::mutex g_mutex;  // guards g_recorder, and is held during its calls
Recorder g_recorder;
thread_local uint64_t t_correlation = 0;

int64_t time_of(const ClEvent& event, cl_profiling_info which) {
  cl_ulong time = 0;
  (void)clGetEventProfilingInfo(event.get(), which, sizeof(time), &time, nullptr);
  return static_cast<int64_t>(time);
}

// LITERALINCLUDE START: opencl-clock
// A marker's time on the device lies between two times on the host; of several attempts, the closest counts.
int64_t clock_offset(const Device& device) {
  constexpr int kAttempts = 10;
  int64_t offset = 0;
  int64_t closest = std::numeric_limits<int64_t>::max();
  ClQueue queue;
  if (device.create_queue(kLowestPriority, &queue) != orSuccess) return 0;
  for (int i = 0; i < kAttempts; ++i) {
    const int64_t before = wall_clock();
    cl_event raw = nullptr;
    if (device.enqueue_mark(queue.get(), &raw) != CL_SUCCESS) return 0;
    const ClEvent marker(raw);
    if (clFinish(queue.get()) != CL_SUCCESS) return 0;
    const int64_t after = wall_clock();
    if (after - before >= closest) continue;
    closest = after - before;
    offset = before + closest / 2 - time_of(marker, CL_PROFILING_COMMAND_END);
  }
  return offset;
}
// LITERALINCLUDE END: opencl-clock

}  // namespace

void mark_recorded(Work& work) noexcept {
  if (!work.shown || !g_recording.load(std::memory_order_relaxed)) return;
  work.recorded = true;
  work.correlation = t_correlation;
}

// LITERALINCLUDE START: opencl-activity
void report_activity(const Work& work, const Stream& stream) {
  const std::lock_guard lock(g_mutex);
  if (g_recorder.function == nullptr) return;
  orActivity activity{};
  activity.kind = work.kind;
  activity.device = stream.device().index;
  activity.stream = reinterpret_cast<orStream_t>(stream.number());
  activity.correlation = work.correlation;
  if (work.span != nullptr) {
    activity.begin_nanoseconds = work.span->begin;
    activity.end_nanoseconds = work.span->end;
  } else {
    const int64_t offset = g_recorder.offsets[static_cast<size_t>(activity.device)];
    activity.begin_nanoseconds = time_of(work.first, CL_PROFILING_COMMAND_START) + offset;
    activity.end_nanoseconds = time_of(work.event, CL_PROFILING_COMMAND_END) + offset;
  }
  activity.bytes = work.bytes;
  activity.copy_kind = work.copy_kind;
  activity.name = work.kind == orActivityKernel ? work.name.c_str() : nullptr;
  g_recorder.function(&activity, g_recorder.user);
}
// LITERALINCLUDE END: opencl-activity

}  // namespace openreg::driver::opencl

using namespace openreg::driver::opencl;
using openreg::driver::Call;
using openreg::driver::fail;

orError_t orActivityStart(void (*function)(const orActivity* activity, void* user), void* user) {
  return call("orActivityStart", [&](Driver& driver) {
    if (function == nullptr) return fail(orErrorInvalidValue, "function is null");
    if (process_is_ending()) return end_refused_call();
    Recorder recorder{function, user, {}};
    for (const auto& device : driver.devices) recorder.offsets.push_back(clock_offset(*device));
    const std::lock_guard lock(g_mutex);
    if (g_recorder.function != nullptr)
      return fail(orErrorInvalidValue, "it is being recorded already; call orActivityStop first");
    g_recorder = std::move(recorder);
    g_recording.store(true);
    return orSuccess;
  });
}

orError_t orActivityStop() {
  return call("orActivityStop", [](Driver& driver) {
    if (!g_recording.exchange(false)) {
      return fail(orErrorInvalidValue, "nothing is being recorded; call orActivityStart first");
    }
    // Work that was marked before is on a stream by now, or its thread has the lock of the stream, for which this
    // waits.
    for (const auto& device : driver.devices) device->finish();
    rest_if_process_is_ending();
    const std::lock_guard lock(g_mutex);
    g_recorder = Recorder{};
    return orSuccess;
  });
}

orError_t orActivitySetCorrelation(uint64_t correlation) {
  t_correlation = correlation;
  return orSuccess;
}
