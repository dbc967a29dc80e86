// Interprocess events, called by torch_openreg/_sharing.py and torch.openreg.InterprocessEvent. On any thread, without
// the GIL.
#include "runtime/interprocess_event.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "driver/openreg_ipc.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/event.h"
#include "runtime/kernel_error.h"
#include "runtime/stream.h"
#include "runtime/trace.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: interprocess-event-create
c10::Device sharing_device(int64_t index) {
  const c10::Device device(c10::kPrivateUse1, resolve_device_index(index));
  TORCH_CHECK_NOT_IMPLEMENTED(&orIpcGetEventHandle != nullptr, "events of ", device,
                              " cannot be shared with another process, since the driver has no openreg_ipc.h: "
                              "synchronize before you send what the other process shall read");
  return device;
}

}  // namespace

InterprocessEvent::InterprocessEvent(int64_t index) : device_(sharing_device(index)) {
  const c10::DeviceGuard guard(device_);
  unsigned flags = orEventDisableTiming;  // required of a shared event
  flags |= orEventInterprocess;
  check(orEventCreateWithFlags(&event_, flags));
  trace(&Tracer::trace_gpu_event_creation, traced(event_));
}

InterprocessEvent::InterprocessEvent(int64_t index, const std::string& handle) : device_(sharing_device(index)) {
  orIpcEventHandle opened{};
  TORCH_CHECK_VALUE(handle.size() == sizeof(opened.bytes), "openreg: an event handle has ", sizeof(opened.bytes),
                    " bytes, not ", handle.size());
  std::memcpy(opened.bytes, handle.data(), sizeof(opened.bytes));
  const c10::DeviceGuard guard(device_);
  check(orIpcOpenEventHandle(&event_, &opened));
  trace(&Tracer::trace_gpu_event_creation, traced(event_));
}

// In a forked child the event belongs to the parent.
InterprocessEvent::~InterprocessEvent() {
  if (is_in_bad_fork()) return;
  trace(&Tracer::trace_gpu_event_deletion, traced(event_));
  warn(orEventDestroy(event_));
}

std::string InterprocessEvent::handle() const {
  orIpcEventHandle handle{};
  check(orIpcGetEventHandle(&handle, event_));
  return {reinterpret_cast<const char*>(handle.bytes), sizeof(handle.bytes)};
}
// LITERALINCLUDE END: interprocess-event-create

// LITERALINCLUDE START: interprocess-event-record
void InterprocessEvent::check_device(const c10::Stream& stream) const {
  TORCH_CHECK(stream.device() == device_, "openreg: an event of ", device_, " cannot be used on ", stream,
              ": use a stream of its device");
}

void InterprocessEvent::record(const c10::Stream& stream) {
  check_device(stream);
  orStream_t handle = stream_handle(stream);
  {
    const DriverCall call("orEventRecord");
    check(orEventRecord(event_, handle));
  }
  trace(&Tracer::trace_gpu_event_record, traced(event_), traced(handle));
}

bool InterprocessEvent::record_behind_all_streams() {
  const c10::Stream current = current_stream(device_.index());
  bool is_busy = false;
  for (orStream_t handle : stream_handles(device_.index())) {
    // A query would break a capture, which may be another thread's. What a graph contains has not run.
    if (is_capturing(handle) || is_finished(orStreamQuery(handle))) continue;
    is_busy = true;
    const c10::Stream stream = external_stream(reinterpret_cast<uintptr_t>(handle));
    if (stream != current) order_streams(stream, current);
  }
  if (is_busy) record(current);
  return is_busy;
}

void InterprocessEvent::block(const c10::Stream& stream) const {
  check_device(stream);
  orStream_t handle = stream_handle(stream);
  {
    const DriverCall call("orStreamWaitEvent");
    check(orStreamWaitEvent(handle, event_));
  }
  trace(&Tracer::trace_gpu_event_wait, traced(event_), traced(handle));
}

bool InterprocessEvent::query() const {
  const bool has_passed = is_finished(orEventQuery(event_));
  if (has_passed) trace(&Tracer::trace_gpu_event_synchronization, traced(event_));
  return has_passed;
}

void InterprocessEvent::synchronize() const {
  {
    const DriverCall call("orEventSynchronize");
    wait_for_event(event_);
    check(orEventSynchronize(event_));
  }
  trace(&Tracer::trace_gpu_event_synchronization, traced(event_));
  raise_kernel_error(device_.index());
}
// LITERALINCLUDE END: interprocess-event-record

}  // namespace openreg
