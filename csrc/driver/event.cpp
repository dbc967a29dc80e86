// Events. Without timing, a record is only the stream's sequence number; with timing, a task takes the time when the
// stream reaches it.
#include "event.h"

#include <cstdio>
#include <utility>

#include "capture.h"
#include "driver.h"
#include "error.h"
#include "ipc_event.h"
#include "openreg_ipc.h"

namespace openreg::driver {

// LITERALINCLUDE START: event-begin-and-end
struct Event::TimeStamp {
  Event* event;
  uint64_t record;

  void run(Device&) { event->set_time(record); }
  void release() {}
};

bool Event::Point::passed() const noexcept {
  if (shared != nullptr) return shared->passed(sequence);
  return stream == nullptr || stream->passed(sequence);
}

uint64_t Event::begin(unsigned flags, std::shared_ptr<SharedEvent> shared) {
  const std::lock_guard lock(mutex_);
  point_ = Point{};
  shared_ = std::move(shared);
  timing_.store((flags & orEventDisableTiming) == 0);
  return generation.fetch_add(1) + 1;
}

bool Event::end(uint64_t expected_generation) {
  const std::lock_guard lock(mutex_);
  if (!generation.compare_exchange_strong(expected_generation, expected_generation + 1)) return false;
  shared_ = nullptr;
  return true;
}
// LITERALINCLUDE END: event-begin-and-end

// LITERALINCLUDE START: event-recording
orError_t Event::record(const StreamRef& ref) {
  if (const auto shared = this->shared()) return record_shared(ref, shared);
  const uint64_t record = records_.fetch_add(1) + 1;
  Stream& stream = *ref.stream;
  if (const auto capture = stream.capture()) return record_captured(record, stream, capture);
  uint64_t sequence = stream.queued();
  if (timing()) {
    if (stream.passed(sequence)) {
      set_time(record);
    } else if (const orError_t error =
                   stream.submit(ref.generation, Task(TimeStamp{this, record}), Placement::kQueue, &sequence)) {
      return error;
    }
  }
  return set_point(record, {&stream, sequence});
}

orError_t Event::set_point(uint64_t record, const Point& point) {
  const std::lock_guard lock(mutex_);
  if (record > point_record_) {  // otherwise another thread has recorded later
    point_record_ = record;
    point_ = point;
  }
  return orSuccess;
}

Event::Point Event::last() const {
  const std::lock_guard lock(mutex_);
  return shared_ == nullptr ? point_ : Point{nullptr, shared_->last(), shared_};
}

bool Event::time_of_last(Clock::time_point* time) const {
  const std::lock_guard lock(mutex_);
  if (!point_.passed() || time_record_ < point_record_) return false;
  *time = time_;
  return true;
}

void Event::set_time(uint64_t record) {
  const std::lock_guard lock(mutex_);
  if (record <= time_record_) return;
  time_record_ = record;
  time_ = Clock::now();
}
// LITERALINCLUDE END: event-recording

std::shared_ptr<SharedEvent> Event::shared() const {
  const std::lock_guard lock(mutex_);
  return shared_;
}

// LITERALINCLUDE START: event-in-capture
orError_t Event::record_captured(uint64_t record, const Stream& stream, const std::shared_ptr<Capture>& capture) {
  return guarded([&] {
    const auto captured = std::make_shared<CapturedRecord>(capture);
    if (const orError_t error = capture->record(stream, &captured->nodes)) return error;
    return set_point(record, {nullptr, 0, nullptr, captured});
  });
}

namespace {

orError_t refuse_for_host(Capture& capture) {
  constexpr const char* kText = "the event was last recorded on a stream that was being captured, and never passes";
  return capture.is_over() ? fail(orErrorCapturedEvent, kText) : capture.refuse(orErrorCapturedEvent, kText);
}

// The stream, which is not being captured, waits for an event of a capture and thereby joins it.
orError_t join_capture(const StreamRef& ref, const CapturedRecord& record) {
  if (record.capture->is_over()) {
    return fail(orErrorCapturedEvent, "the event was recorded in a capture that has ended; record it again");
  }
  if (ref.stream->index() == 0) {
    return record.capture->refuse(orErrorStreamCaptureUnsupported, "a default stream cannot join the capture");
  }
  if (const orError_t error = ref.stream->join_capture(ref.generation, record.capture)) return error;
  return record.capture->wait(*ref.stream, record.nodes);
}

orError_t wait_in_capture(const StreamRef& ref, const std::shared_ptr<Capture>& capture, const Event::Point& point) {
  if (point.captured != nullptr && point.captured->capture == capture) {
    return capture->wait(*ref.stream, point.captured->nodes);
  }
  if (point.shared != nullptr) {
    return capture->refuse(orErrorStreamCaptureUnsupported,  // NOT PROVEN: tests/driver/test_graph.py
                           "a graph cannot wait for an event that several processes share");  // NOT PROVEN: as above
  }
  if (point.captured == nullptr && point.stream == nullptr) return orSuccess;
  return capture->refuse(orErrorStreamCaptureIsolation,
                         "a captured stream waits for an event that was recorded outside the capture: synchronize "
                         "before the capture begins, or record the event on a stream that has joined it");
}

}  // namespace
// LITERALINCLUDE END: event-in-capture

}  // namespace openreg::driver

using namespace openreg::driver;

namespace {

// LITERALINCLUDE START: event-lookup
// Finds the last record of an event whose device has not failed, for the functions that wait for or query it.
orError_t find_last(Driver& driver, orEvent_t handle, EventRef* ref, Event::Point* point) {
  if (const orError_t error = driver.find_event(handle, ref)) return error;
  if (const orError_t error = ref->device->failure.refuse()) return error;
  *point = ref->event->last();
  return orSuccess;
}

// The same for the functions of the host, for which a record in a capture means nothing.
orError_t find_last_for_host(Driver& driver, orEvent_t handle, EventRef* ref, Event::Point* point) {
  if (const orError_t error = find_last(driver, handle, ref, point)) return error;
  return point->captured == nullptr ? orSuccess : refuse_for_host(*point->captured->capture);
}

orError_t find_time(Driver& driver, orEvent_t handle, const char* which, EventRef* ref,
                    Event::Clock::time_point* time) {
  Event::Point point;
  if (const orError_t error = find_last_for_host(driver, handle, ref, &point)) return error;
  if (!ref->event->timing()) {
    return fail(orErrorInvalidValue, "the %s event was created with orEventDisableTiming", which);
  }
  if (point.stream == nullptr) return fail(orErrorInvalidValue, "the %s event was never recorded", which);
  if (ref->event->time_of_last(time)) return orSuccess;
  if (const orError_t error = ref->device->failure.report()) return error;  // the record may have been dropped
  return orErrorNotReady;
}
// LITERALINCLUDE END: event-lookup

}  // namespace

// LITERALINCLUDE START: event-object
orError_t openreg::driver::create_event(orEvent_t* event, unsigned flags, std::shared_ptr<SharedEvent> shared) {
  Device* device = nullptr;
  if (const orError_t error = get_current_device(&device)) return error;
  uint32_t index = 0;
  Event* const object = device->events.take(&index);
  if (object == nullptr) {
    return fail(orErrorMemoryAllocation, "no event is left on openreg:%d, where %zu can exist; destroy some",
                device->index, device->events.kCapacity);
  }
  const Handle handle{HandleKind::kEvent, device->index, index, object->begin(flags, std::move(shared))};
  *event = reinterpret_cast<orEvent_t>(handle.pack());
  return orSuccess;
}
// LITERALINCLUDE END: event-object

// LITERALINCLUDE START: event-life
orError_t orEventCreate(orEvent_t* event) {
  const Call call("orEventCreate");
  if (event == nullptr) return fail(orErrorInvalidValue, "event is null");
  return create_event(event, orEventDefault, nullptr);
}

orError_t orEventCreateWithFlags(orEvent_t* event, unsigned flags) {
  const Call call("orEventCreateWithFlags");
  if (event == nullptr) return fail(orErrorInvalidValue, "event is null");
  if ((flags & ~(static_cast<unsigned>(orEventDisableTiming) | orEventInterprocess)) != 0) {
    return fail(orErrorInvalidValue,
                "flags 0x%x are unknown; valid are orEventDefault, orEventDisableTiming and orEventInterprocess",
                flags);
  }
  std::shared_ptr<SharedEvent> shared;
  if ((flags & orEventInterprocess) != 0) {
    if ((flags & orEventDisableTiming) == 0) {
      return fail(orErrorInvalidValue, "an event for several processes has no times; add orEventDisableTiming");
    }
    if (const orError_t error = SharedEvent::create(&shared)) return error;
  }
  return create_event(event, flags, std::move(shared));
}

orError_t orEventDestroy(orEvent_t event) {
  const Call call("orEventDestroy");
  EventRef ref;
  if (const orError_t error = get_event(event, &ref)) return error;
  if (const orError_t error = ref.device->failure.refuse()) return error;
  if (!ref.event->end(ref.generation)) return fail(orErrorInvalidHandle, "the event no longer exists");
  ref.device->events.give_back(ref.index);
  return orSuccess;
}
// LITERALINCLUDE END: event-life

// LITERALINCLUDE START: event-on-stream
orError_t orEventRecord(orEvent_t event, orStream_t stream) {
  const Call call("orEventRecord");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  EventRef event_ref;
  if (const orError_t error = driver->find_event(event, &event_ref)) return error;
  StreamRef stream_ref;
  if (const orError_t error = driver->find_stream(stream, &stream_ref)) return error;
  if (event_ref.device != &stream_ref.stream->device()) {
    return fail(orErrorInvalidValue,
                "the event belongs to openreg:%d and the stream to openreg:%d; record it on a stream of its own device",
                event_ref.device->index, stream_ref.stream->device().index);
  }
  if (const orError_t error = event_ref.device->failure.refuse()) return error;
  return event_ref.event->record(stream_ref);
}
// LITERALINCLUDE END: event-on-stream

// LITERALINCLUDE START: event-progress
orError_t orEventSynchronize(orEvent_t event) {
  const Call call("orEventSynchronize");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  EventRef ref;
  Event::Point point;
  if (const orError_t error = find_last_for_host(*driver, event, &ref, &point)) return error;
  if (point.shared != nullptr) return synchronize_shared(*ref.device, *point.shared, point.sequence);
  if (point.stream == nullptr) return ref.device->failure.report();
  return ref.device->synchronize(*point.stream, point.sequence);
}

orError_t orEventQuery(orEvent_t event) {
  const Call call("orEventQuery");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  EventRef ref;
  Event::Point point;
  if (const orError_t error = find_last_for_host(*driver, event, &ref, &point)) return error;
  const bool passed = point.passed();
  if (const orError_t error = ref.device->failure.report()) return error;
  if (point.shared != nullptr) return query_shared(*point.shared, point.sequence);
  return passed ? orSuccess : orErrorNotReady;
}
// LITERALINCLUDE END: event-progress

// LITERALINCLUDE START: event-elapsed-time
orError_t orEventElapsedTime(double* milliseconds, orEvent_t start, orEvent_t end) {
  const Call call("orEventElapsedTime");
  if (milliseconds == nullptr) return fail(orErrorInvalidValue, "milliseconds is null");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  EventRef start_ref;
  Event::Clock::time_point start_time;
  if (const orError_t error = find_time(*driver, start, "start", &start_ref, &start_time)) return error;
  EventRef end_ref;
  Event::Clock::time_point end_time;
  if (const orError_t error = find_time(*driver, end, "end", &end_ref, &end_time)) return error;
  if (start_ref.device != end_ref.device) {
    return fail(orErrorInvalidValue, "the start event belongs to openreg:%d and the end event to openreg:%d",
                start_ref.device->index, end_ref.device->index);
  }
  *milliseconds = std::chrono::duration<double, std::milli>(end_time - start_time).count();
  return orSuccess;
}
// LITERALINCLUDE END: event-elapsed-time

// LITERALINCLUDE START: event-stream-wait
namespace {

// A device that has failed drops its work, and its events pass. What another device does behind such an event would
// read memory that was never written, so that device fails as well, or the call if the failure is known by then.
orError_t refuse_failed(const Device& waiter, const Event::Point& point) {
  if (point.stream == nullptr || &point.stream->device() == &waiter) return orSuccess;
  return point.stream->device().failure.report();
}

}  // namespace

orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event) {
  const Call call("orStreamWaitEvent");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  StreamRef stream_ref;
  if (const orError_t error = driver->find_stream(stream, &stream_ref)) return error;
  if (const orError_t error = stream_ref.stream->device().failure.refuse()) return error;
  EventRef event_ref;
  Event::Point point;
  if (const orError_t error = find_last(*driver, event, &event_ref, &point)) return error;
  if (const auto capture = stream_ref.stream->capture()) return wait_in_capture(stream_ref, capture, point);
  if (point.captured != nullptr) return join_capture(stream_ref, *point.captured);
  if (const orError_t error = refuse_failed(stream_ref.stream->device(), point)) return error;
  if (point.shared != nullptr) return wait_for_shared(stream_ref, point.shared, point.sequence);
  if (point.passed() || point.stream == stream_ref.stream) return orSuccess;

  struct WaitFor {
    Stream* stream;
    uint64_t sequence;

    void run(Device& device) {
      stream->wait_for(device, device.failure.resets(), sequence);
      if (&device != &stream->device() && stream->dropped(sequence)) device.fail_with(stream->device());
    }
    void release() {}
  };
  uint64_t sequence = 0;
  return stream_ref.stream->submit(stream_ref.generation, Task(WaitFor{point.stream, point.sequence}),
                                   Placement::kQueue, &sequence, "the event was recorded outside the capture");
}
// LITERALINCLUDE END: event-stream-wait
