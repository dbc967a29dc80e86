// Events over the driver's event handles. Called on any thread, with or without the GIL.
#include "runtime/event.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/util/Exception.h>

#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/kernel_error.h"
#include "runtime/stream.h"
#include "runtime/trace.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: event-first-record
// The driver's events belong to the device that is current when they are created.
orEvent_t create_event(c10::DeviceIndex index, c10::EventFlag flag) {
  const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, index));
  const bool timing = flag == c10::EventFlag::BACKEND_DEFAULT;
  orEvent_t event = nullptr;
  check(orEventCreateWithFlags(&event, timing ? orEventDefault : orEventDisableTiming));
  trace(&Tracer::trace_gpu_event_creation, traced(event));
  return event;
}

orEvent_t event_handle(void* event) { return static_cast<orEvent_t>(event); }

}  // namespace

void record_event(void** event, const c10::Stream& stream, c10::DeviceIndex index, c10::EventFlag flag) {
  TORCH_CHECK(index == -1 || index == stream.device_index(), "openreg: an event of device ", static_cast<int>(index),
              " cannot be recorded on ", stream, ": record it on a stream of its own device, or make another event");
  orStream_t handle = stream_handle(stream);
  if (*event == nullptr) {
    *event = create_event(stream.device_index(), flag);
  }
  const auto record = [&] {
    const DriverCall call("orEventRecord");
    check(orEventRecord(event_handle(*event), handle));
  };
  // PyTorch calls this with the GIL. An event that takes the time is a task, which waits while the queue is full. Any
  // other one is recorded at once, also in destructors, where another thread of Python must not run.
  flag == c10::EventFlag::BACKEND_DEFAULT ? wait_without_gil(record) : record();
  trace(&Tracer::trace_gpu_event_record, traced(*event), traced(handle));
}
// LITERALINCLUDE END: event-first-record

namespace {

// LITERALINCLUDE START: event-earlier-work
// A stream that waits for captured work joins the capture. As where a capture begins (csrc/graph), what was queued on
// it before must then be over.
class EarlierWork {
 public:
  EarlierWork(orStream_t stream, c10::DeviceIndex device) : EarlierWork(stream) {
    if (C10_LIKELY(!captures_are_under_way()) || is_capturing(stream)) return;
    event_ = create_event(device, c10::EventFlag::PYTORCH_DEFAULT);
    check(orEventRecord(event_, stream));
  }
  ~EarlierWork() { destroy_event(event_); }
  EarlierWork(const EarlierWork&) = delete;
  EarlierWork& operator=(const EarlierWork&) = delete;

  // PyTorch's wait_event keeps the GIL, as a call that waits for nothing may.
  void finish_if_captured() const {
    if (event_ == nullptr || !is_capturing(stream_)) return;
    const DriverCall call("orEventSynchronize");
    wait_without_gil([this] {
      wait_for_event(event_);
      check(orEventSynchronize(event_));
    });
  }

 private:
  // Once it has returned, the destructor runs even if the other constructor throws.
  explicit EarlierWork(orStream_t stream) : stream_(stream) {}

  orStream_t const stream_;
  orEvent_t event_ = nullptr;
};
// LITERALINCLUDE END: event-earlier-work

}  // namespace

// LITERALINCLUDE START: event-waits
void block_stream(void* event, const c10::Stream& stream) {
  if (event != nullptr) {
    orStream_t handle = stream_handle(stream);
    const EarlierWork earlier(handle, stream.device_index());
    wait_without_gil([&] {  // for room in the queue
      const DriverCall call("orStreamWaitEvent");
      check(orStreamWaitEvent(handle, event_handle(event)));
    });
    earlier.finish_if_captured();
    trace(&Tracer::trace_gpu_event_wait, traced(event), traced(handle));
  }
}

bool query_event(void* event) {
  const bool has_passed = event == nullptr || is_finished(orEventQuery(event_handle(event)));
  // A query that finds the event passed synchronizes as a wait does.
  if (event != nullptr && has_passed) trace(&Tracer::trace_gpu_event_synchronization, traced(event));
  return has_passed;
}

void synchronize_event(void* event) {
  if (event != nullptr) {
    const DriverCall call("orEventSynchronize");
    wait_for_event(event_handle(event));
    check(orEventSynchronize(event_handle(event)));
    trace(&Tracer::trace_gpu_event_synchronization, traced(event));
    raise_kernel_error(-1);  // the driver does not report the device of an event
  }
}
// LITERALINCLUDE END: event-waits

// LITERALINCLUDE START: event-time
double elapsed_time(void* start, void* end) {
  TORCH_CHECK(start != nullptr && end != nullptr,
              "openreg: elapsed_time needs two events that have been recorded; record both first");
  double milliseconds = 0;
  check(orEventElapsedTime(&milliseconds, event_handle(start), event_handle(end)));
  return milliseconds;
}
// LITERALINCLUDE END: event-time

// LITERALINCLUDE START: event-end
// Runs in destructors. In a forked child the event belongs to the parent.
void destroy_event(void* event) noexcept {
  if (event != nullptr && !is_in_bad_fork()) {
    trace(&Tracer::trace_gpu_event_deletion, traced(event));
    warn(orEventDestroy(event_handle(event)));
  }
}
// LITERALINCLUDE END: event-end

// LITERALINCLUDE START: event-order-streams
void order_streams(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(c10::kPrivateUse1);
  event.record(earlier);
  event.block(later);
}
// LITERALINCLUDE END: event-order-streams

}  // namespace openreg
