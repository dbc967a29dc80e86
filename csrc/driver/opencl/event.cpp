// Events. Without timing, a record is the stream's last command; with timing, it is a marker, which OpenCL timestamps.
#include "event.h"

#include "driver.h"

using namespace openreg::driver::opencl;
using openreg::driver::fail;

namespace {

orError_t create_event(const char* function, orEvent_t* event, unsigned flags) {
  return call(function, [&](Driver& driver) {
    if (event == nullptr) return fail(orErrorInvalidValue, "event is null");
    if ((flags & ~unsigned{orEventDisableTiming}) != 0) {
      return fail(orErrorInvalidValue, "flags 0x%x are unknown; valid are orEventDefault and orEventDisableTiming",
                  flags);
    }
    Device& device = driver.current();
    if (const orError_t error = device.failure.refuse()) return error;
    const uint64_t number = driver.new_handle();
    driver.events.add(number, std::make_shared<Event>(device, flags == orEventDefault));
    *event = reinterpret_cast<orEvent_t>(number);
    return orSuccess;
  });
}

// LITERALINCLUDE START: opencl-record
orError_t record(Event& event, const std::shared_ptr<Stream>& stream) {
  // The marker is queued without the event's lock, because queueing may wait for the device, and a query must not.
  const uint64_t number = event.records.fetch_add(1) + 1;
  ClEvent command;
  if (!event.timing) {
    command = stream->last();
  } else {
    const auto mark = [&](cl_command_queue queue, cl_event* marker) {
      return event.device.enqueue_mark(queue, marker);
    };
    if (const orError_t error = stream->submit("the marker of an event", Work::hidden(), mark, &command)) return error;
  }
  const std::lock_guard lock(event.mutex);
  if (number < event.last_number) return orSuccess;  // another thread began a later record, and was faster
  event.last_number = number;
  event.last = Event::Point{stream, command};
  return orSuccess;
}
// LITERALINCLUDE END: opencl-record

// Finds the last record of an event whose device has not failed, for the functions that wait for or query it.
orError_t find_last(Driver& driver, orEvent_t handle, std::shared_ptr<Event>* event, Event::Point* point) {
  if (const orError_t error = driver.find_event(handle, event)) return error;
  if (const orError_t error = (*event)->device.failure.refuse()) return error;
  *point = (*event)->last_point();
  return orSuccess;
}

void CL_CALLBACK note_end(cl_event, cl_int, void* user) {
  const std::unique_ptr<std::shared_ptr<Awaited>> awaited(static_cast<std::shared_ptr<Awaited>*>(user));
  if (!(*awaited)->device.failure.present()) (*awaited)->succeeded.store(true);
}

// Notes whether a failure of the device is known when the command ends: afterwards nothing tells which came first.
std::shared_ptr<Awaited> watch(const Device& device, cl_event command) {
  const auto awaited = std::make_shared<Awaited>(device);
  auto user = std::make_unique<std::shared_ptr<Awaited>>(awaited);
  if (clSetEventCallback(command, CL_COMPLETE, note_end, user.get()) == CL_SUCCESS) {
    (void)user.release();  // the callback owns it
  }
  return awaited;
}

// Gets the time of the device's clock when the stream passed the last record, in nanoseconds.
orError_t find_time(Driver& driver, orEvent_t handle, const char* which, std::shared_ptr<Event>* event,
                    cl_ulong* time) {
  Event::Point point;
  if (const orError_t error = find_last(driver, handle, event, &point)) return error;
  if (!(*event)->timing) {
    return fail(orErrorInvalidValue, "the %s event was created with orEventDisableTiming", which);
  }
  if (point.stream == nullptr) return fail(orErrorInvalidValue, "the %s event was never recorded", which);
  if (!has_ended(point.command)) return orErrorNotReady;
  point.stream->collect();
  if (const orError_t error = (*event)->device.failure.report()) return error;  // the record may have been dropped
  if (process_has_ended()) return end_refused_call();
  const cl_int status =
      clGetEventProfilingInfo(point.command.get(), CL_PROFILING_COMMAND_END, sizeof(*time), time, nullptr);
  return status == CL_SUCCESS ? orSuccess : fail_cl(status, "clGetEventProfilingInfo");
}

}  // namespace

orError_t orEventCreate(orEvent_t* event) { return create_event("orEventCreate", event, orEventDefault); }

orError_t orEventCreateWithFlags(orEvent_t* event, unsigned flags) {
  return create_event("orEventCreateWithFlags", event, flags);
}

orError_t orEventDestroy(orEvent_t event) {
  return call("orEventDestroy", [&](Driver& driver) {
    std::shared_ptr<Event> found;
    if (const orError_t error = driver.find_event(event, &found)) return error;
    if (const orError_t error = found->device.failure.refuse()) return error;
    if (!driver.events.take(number_of(event))) return fail(orErrorInvalidHandle, "the event no longer exists");
    return orSuccess;
  });
}

orError_t orEventRecord(orEvent_t event, orStream_t stream) {
  return call("orEventRecord", [&](Driver& driver) {
    std::shared_ptr<Event> recorded;
    if (const orError_t error = driver.find_event(event, &recorded)) return error;
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    if (&recorded->device != &on->device()) {
      return fail(
          orErrorInvalidValue,
          "the event belongs to openreg:%d and the stream to openreg:%d; record it on a stream of its own device",
          recorded->device.index, on->device().index);
    }
    if (const orError_t error = recorded->device.failure.refuse()) return error;
    return record(*recorded, on);
  });
}

orError_t orEventSynchronize(orEvent_t event) {
  return call("orEventSynchronize", [&](Driver& driver) {
    std::shared_ptr<Event> found;
    Event::Point point;
    if (const orError_t error = find_last(driver, event, &found, &point)) return error;
    if (point.stream == nullptr) return found->device.failure.report();
    return found->device.synchronize(*point.stream, point.command);
  });
}

orError_t orEventQuery(orEvent_t event) {
  return call("orEventQuery", [&](Driver& driver) {
    std::shared_ptr<Event> found;
    Event::Point point;
    if (const orError_t error = find_last(driver, event, &found, &point)) return error;
    const bool passed = has_ended(point.command);
    if (passed && point.stream != nullptr) point.stream->collect();
    if (const orError_t error = found->device.failure.report()) return error;
    return passed ? orSuccess : orErrorNotReady;
  });
}

orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event) {
  return call("orStreamWaitEvent", [&](Driver& driver) {
    std::shared_ptr<Stream> waiting;
    if (const orError_t error = driver.find_stream(stream, &waiting)) return error;
    if (const orError_t error = waiting->device().failure.refuse()) return error;
    std::shared_ptr<Event> found;
    Event::Point point;
    if (const orError_t error = find_last(driver, event, &found, &point)) return error;
    if (point.stream == nullptr || point.stream == waiting) return orSuccess;
    const bool of_other_device = &found->device != &waiting->device();
    if (has_ended(point.command)) {
      if (!of_other_device) return orSuccess;
      point.stream->collect();
      return found->device.failure.report();  // the work that was recorded may have been dropped
    }
    const cl_event awaited = point.command.get();
    Work work = Work::hidden();
    if (of_other_device) work.awaits = watch(found->device, awaited);
    return waiting->submit("clEnqueueBarrierWithWaitList", std::move(work),
                           [&](cl_command_queue queue, cl_event* barrier) {
                             return clEnqueueBarrierWithWaitList(queue, 1, &awaited, barrier);
                           });
  });
}

orError_t orEventElapsedTime(double* milliseconds, orEvent_t start, orEvent_t end) {
  return call("orEventElapsedTime", [&](Driver& driver) {
    if (milliseconds == nullptr) return fail(orErrorInvalidValue, "milliseconds is null");
    std::shared_ptr<Event> first;
    cl_ulong first_time = 0;
    if (const orError_t error = find_time(driver, start, "start", &first, &first_time)) return error;
    std::shared_ptr<Event> second;
    cl_ulong second_time = 0;
    if (const orError_t error = find_time(driver, end, "end", &second, &second_time)) return error;
    if (&first->device != &second->device) {
      return fail(orErrorInvalidValue, "the start event belongs to openreg:%d and the end event to openreg:%d",
                  first->device.index, second->device.index);
    }
    *milliseconds = static_cast<double>(static_cast<int64_t>(second_time - first_time)) / 1e6;
    return orSuccess;
  });
}
