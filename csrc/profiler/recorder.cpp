// The recording: filled by the driver's callback, on the threads that run kernels, and by every thread that calls the
// driver. The lock is held for a few instructions, and nothing else is called under it.
#include "profiler/recorder.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <utility>

#include "profiler/operations.h"
#include "runtime/device.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: profiler-recorder-state
class Recorder final : public CallObserver {
 public:
  Start begin() noexcept override;
  void end(const char* function, const Start& start) noexcept override;

  void start(size_t most_records);
  Recording stop();
  bool is_active() noexcept;
  void add_range(const std::string& name, int64_t begin) noexcept;

 private:
  static void note(const orActivity* activity, void* recorder) noexcept;

  template <class Add>
  void add(Add add_record) noexcept;
  const char* keep_name(const char* name) { return recording_.names.emplace(name).first->c_str(); }

  std::mutex mutex_;
  bool active_ = false;
  size_t most_records_ = 0;
  Recording recording_;
  std::atomic<uint32_t> last_call_{0};
};

// Never destroyed: threads of the driver may still call it while the process ends.
Recorder& recorder() {
  static Recorder& instance = *new Recorder;
  return instance;
}

int32_t this_thread() noexcept {
  static thread_local const int32_t id = gettid();
  return id;
}
// LITERALINCLUDE END: profiler-recorder-state

// LITERALINCLUDE START: profiler-recorder-add
// A record for which there is no room, or no memory, is counted. A profile that is never stopped must not exhaust
// memory.
template <class Add>
void Recorder::add(Add add_record) noexcept {
  if (is_in_bad_fork()) return;
  const std::lock_guard lock(mutex_);
  if (!active_) return;  // a call that began while the recording still ran
  if (recording_.device.size() + recording_.host.size() >= most_records_) {
    ++recording_.dropped;
    return;
  }
  try {
    add_record(recording_);
  } catch (const std::bad_alloc&) {
    ++recording_.dropped;  // NOT PROVEN: requires host memory to be exhausted
  }
}
// LITERALINCLUDE END: profiler-recorder-add

// LITERALINCLUDE START: profiler-recorder-device
// The name is valid only during the call. Names are few, so each is kept once.
void Recorder::note(const orActivity* activity, void* recorder) noexcept {
  auto& self = *static_cast<Recorder*>(recorder);
  self.add([&](Recording& to) {
    const char* const name = activity->name == nullptr ? nullptr : self.keep_name(activity->name);
    to.device.push_back({activity->kind, activity->copy_kind, activity->device, activity->stream,
                         static_cast<uint32_t>(activity->correlation >> 32),
                         static_cast<uint32_t>(activity->correlation), activity->begin_nanoseconds,
                         activity->end_nanoseconds, activity->bytes, name});
  });
}
// LITERALINCLUDE END: profiler-recorder-device

// LITERALINCLUDE START: profiler-recorder-calls
CallObserver::Start Recorder::begin() noexcept {
  // PyTorch numbers operators from 1, and takes a call with the number of an operator for its kernels.
  constexpr uint32_t kFirst = 1U << 30;
  const uint32_t number = kFirst + (last_call_++ & (kFirst - 1));
  warn(orActivitySetCorrelation(correlation_of(current_operations().operation, number)));
  return {c10::getTime(), number};
}

void Recorder::end(const char* function, const Start& start) noexcept {
  const int64_t now = c10::getTime();
  const Operations inside = current_operations();
  warn(orActivitySetCorrelation(correlation_of(inside.operation, 0)));
  add([&](Recording& to) {
    to.host.push_back({HostRecord::Kind::kCall, function, this_thread(), inside.operation, inside.range, start.number,
                       start.nanoseconds, now});
  });
}

void Recorder::add_range(const std::string& name, int64_t begin) noexcept {
  const int64_t now = c10::getTime();
  const Operations inside = current_operations();
  add([&](Recording& to) {
    to.host.push_back({HostRecord::Kind::kRange, keep_name(name.c_str()), this_thread(), inside.operation, inside.range,
                       0, begin, now});
  });
}
// LITERALINCLUDE END: profiler-recorder-calls

// LITERALINCLUDE START: profiler-recorder-start-and-stop
// In a forked child the lock may be held forever, by a thread that does not exist there.
bool Recorder::is_active() noexcept {
  if (is_in_bad_fork()) return false;
  const std::lock_guard lock(mutex_);
  return active_;
}

void Recorder::start(size_t most_records) {
  static_cast<void>(device_count());  // raises in a forked child
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!active_, "openreg: a profile is being recorded already; stop it first");
    active_ = true;
    most_records_ = most_records;
    recording_ = {};
  }
  forget_operations();
  if (const orError_t error = orActivityStart(&note, this); error != orSuccess) {
    stop();
    check(error);
  }
  call_observer.store(this);
}

Recording Recorder::stop() {
  if (is_in_bad_fork()) return {};
  // It waits for the work that is queued, on all devices.
  if (call_observer.exchange(nullptr) != nullptr) wait_without_gil([] { warn(orActivityStop()); });
  const std::lock_guard lock(mutex_);
  active_ = false;
  return std::exchange(recording_, {});
}
// LITERALINCLUDE END: profiler-recorder-start-and-stop

}  // namespace

bool can_record() noexcept { return &orActivityStart != nullptr; }

void start_recording(size_t most_records) { recorder().start(most_records); }

Recording stop_recording() { return recorder().stop(); }

bool is_recording() noexcept { return recorder().is_active(); }

void record_range(const std::string& name, int64_t begin) noexcept { recorder().add_range(name, begin); }

}  // namespace openreg
