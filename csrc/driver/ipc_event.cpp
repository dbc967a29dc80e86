// Events that several processes share, for openreg_ipc.h: their handles, and what they queue on streams.
#include "ipc_event.h"

#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "capture.h"
#include "error.h"
#include "ipc.h"
#include "openreg_ipc.h"
#include "process.h"

namespace openreg::driver {
namespace {

static_assert(sizeof(ExportedFile) <= sizeof(orIpcEventHandle::bytes));

// LITERALINCLUDE START: ipc-event-reason
// How a message describes that waiting for a record was in vain, if it was. The number is that of the process.
const char* reason(SharedEvent::Outcome outcome) {
  if (outcome == SharedEvent::Outcome::kDropped) {
    return "process %d, which recorded the event, dropped the work before it: its device failed, or was reset";
  }
  if (outcome == SharedEvent::Outcome::kEnded) {
    return "process %d, which recorded the event, has ended before the record passed";
  }
  return nullptr;
}
// LITERALINCLUDE END: ipc-event-reason

constexpr const char* kNotShared = "an event that several processes share cannot be recorded in a graph";

// LITERALINCLUDE START: ipc-event-tasks
// A task is trivially copyable, so it owns a pointer to the reference that it holds.
using Reference = std::shared_ptr<SharedEvent>;

// Passes the record even if the device drops its work, as a stream passes the work that it drops; who waits comes to
// know of it. At the end of the process the record stays: other processes must find that it has ended.
struct PassShared {
  Reference* shared;
  uint64_t record;
  bool has_run = false;

  void run(Device&) { has_run = true; }
  void release() {
    if (has_run || !process_is_ending()) (*shared)->pass(record, !has_run);
    delete shared;
  }
};
// LITERALINCLUDE END: ipc-event-tasks

struct WaitForShared {
  Reference* shared;
  uint64_t record;

  void run(Device& device) {
    const char* const text = reason((*shared)->wait(record, device, device.failure.resets()));
    if (text == nullptr) return;
    char with_process[128];
    std::snprintf(with_process, sizeof(with_process), text, (*shared)->process(record));
    device.failure.store(with_process);
  }
  void release() { delete shared; }
};

orError_t keep(const Reference& shared, Reference** kept) {
  *kept = new (std::nothrow) Reference(shared);
  if (*kept != nullptr) return orSuccess;
  return fail(orErrorMemoryAllocation, "the host has no memory to queue an event");  // NOT PROVEN: needs such a host
}

template <class Work>
orError_t queue(const StreamRef& ref, const Work& work) {
  uint64_t sequence = 0;
  return ref.stream->submit(ref.generation, Task(work), Placement::kQueue, &sequence, kNotShared);
}

orError_t raise_loss(const SharedEvent& shared, uint64_t record, SharedEvent::Outcome outcome) {
  const char* const text = reason(outcome);
  return text == nullptr ? orSuccess : fail(orErrorLaunchFailure, text, shared.process(record));
}

}  // namespace

orError_t record_shared(const StreamRef& ref, const Reference& shared) {
  if (const orError_t error = refuse_if_captured(*ref.stream, kNotShared)) return error;
  // Before the record begins, since one that has begun must pass.
  Reference* kept = nullptr;
  if (const orError_t error = keep(shared, &kept)) return error;
  uint64_t record = 0;
  if (const orError_t error = shared->begin_record(&record)) {
    delete kept;
    return error;
  }
  if (!ref.stream->idle()) return queue(ref, PassShared{kept, record});
  delete kept;
  shared->pass(record, /*work_was_dropped=*/!ref.stream->device().runs_work());
  return orSuccess;
}

orError_t wait_for_shared(const StreamRef& ref, const Reference& shared, uint64_t record) {
  if (shared->outcome(record) == SharedEvent::Outcome::kPassed) return orSuccess;
  Reference* kept = nullptr;
  if (const orError_t error = keep(shared, &kept)) return error;
  return queue(ref, WaitForShared{kept, record});
}

orError_t query_shared(const SharedEvent& shared, uint64_t record) {
  const SharedEvent::Outcome outcome = shared.outcome(record);
  if (outcome == SharedEvent::Outcome::kPending) return orErrorNotReady;
  return raise_loss(shared, record, outcome);
}

orError_t synchronize_shared(Device& device, const SharedEvent& shared, uint64_t record) {
  auto outcome = SharedEvent::Outcome::kPending;
  if (const orError_t error = device.synchronize(shared, record, &outcome)) return error;
  return raise_loss(shared, record, outcome);
}

}  // namespace openreg::driver

using namespace openreg::driver;

// LITERALINCLUDE START: ipc-event-handle
orError_t orIpcGetEventHandle(orIpcEventHandle* handle, orEvent_t event) {
  const Call call("orIpcGetEventHandle");
  if (handle == nullptr) return fail(orErrorInvalidValue, "handle is null");
  EventRef ref;
  if (const orError_t error = get_event(event, &ref)) return error;
  if (const orError_t error = ref.device->failure.refuse()) return error;
  const auto shared = ref.event->shared();
  if (shared == nullptr) {
    return fail(orErrorNotSupported, "the event belongs to this process alone; create it with orEventInterprocess");
  }
  ExportedFile exported{};
  if (const orError_t error = export_file(ExportedKind::kEvent, ref.device->index, shared->file(), 0, &exported))
    return error;  // NOT PROVEN: needs a closed file
  *handle = {};
  std::memcpy(handle->bytes, &exported, sizeof(exported));
  return orSuccess;
}

orError_t orIpcOpenEventHandle(orEvent_t* event, const orIpcEventHandle* handle) {
  const Call call("orIpcOpenEventHandle");
  if (event == nullptr || handle == nullptr) return fail(orErrorInvalidValue, "event or handle is null");
  Device* device = nullptr;
  if (const orError_t error = get_current_device(&device)) return error;
  ExportedFile exported{};
  std::memcpy(&exported, handle->bytes, sizeof(exported));
  int file = -1;
  if (const orError_t error =
          open_exported(exported, ExportedKind::kEvent, device->index, SharedEvent::file_bytes(), &file)) {
    return error;
  }
  std::shared_ptr<SharedEvent> shared;
  if (const orError_t error = SharedEvent::open(file, &shared)) return error;
  return create_event(event, orEventDisableTiming, std::move(shared));
}
// LITERALINCLUDE END: ipc-event-handle
