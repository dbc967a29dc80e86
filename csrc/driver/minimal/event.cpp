// Events. A record passes at once; the event stores its time.
#include "driver.h"

using namespace openreg::driver::minimal;
using openreg::driver::fail;

namespace {

orError_t find_event(Driver& driver, orEvent_t handle, Event** event) {
  const auto found = driver.events.find(number_of(handle));
  if (found == driver.events.end()) {
    return fail(orErrorInvalidHandle, "%p is not an event, or no longer", static_cast<void*>(handle));
  }
  *event = &found->second;
  return orSuccess;
}

orError_t create(const char* function, orEvent_t* event, unsigned flags) {
  return call(function, [&](Driver& driver) {
    if (event == nullptr) return fail(orErrorInvalidValue, "event is null");
    if ((flags & ~unsigned{orEventDisableTiming}) != 0) {
      return fail(orErrorInvalidValue, "flags 0x%x are unknown; valid are orEventDefault and orEventDisableTiming",
                  flags);
    }
    driver.events.emplace(++driver.last_handle, Event{current_device(), flags == orEventDefault, std::nullopt});
    *event = reinterpret_cast<orEvent_t>(driver.last_handle);
    return orSuccess;
  });
}

// An event has always passed.
orError_t has_passed(const char* function, orEvent_t event) {
  return call(function, [&](Driver& driver) {
    Event* found = nullptr;
    return find_event(driver, event, &found);
  });
}

}  // namespace

orError_t orEventCreate(orEvent_t* event) { return create("orEventCreate", event, orEventDefault); }
orError_t orEventCreateWithFlags(orEvent_t* event, unsigned flags) {
  return create("orEventCreateWithFlags", event, flags);
}

orError_t orEventDestroy(orEvent_t event) {
  return call("orEventDestroy", [&](Driver& driver) {
    Event* found = nullptr;
    if (const orError_t error = find_event(driver, event, &found)) return error;
    driver.events.erase(number_of(event));
    return orSuccess;
  });
}

// LITERALINCLUDE START: minimal-events
orError_t orEventRecord(orEvent_t event, orStream_t stream) {
  return call("orEventRecord", [&](Driver& driver) {
    Event* recorded = nullptr;
    if (const orError_t error = find_event(driver, event, &recorded)) return error;
    Stream* on = nullptr;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    if (recorded->device != on->device) {
      return fail(
          orErrorInvalidValue,
          "the event belongs to openreg:%d and the stream to openreg:%d; record it on a stream of its own device",
          recorded->device, on->device);
    }
    recorded->recorded = Clock::now();
    return orSuccess;
  });
}

orError_t orEventSynchronize(orEvent_t event) { return has_passed("orEventSynchronize", event); }
orError_t orEventQuery(orEvent_t event) { return has_passed("orEventQuery", event); }

orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event) {
  return call("orStreamWaitEvent", [&](Driver& driver) {
    Stream* waiting = nullptr;
    if (const orError_t error = driver.find_stream(stream, &waiting)) return error;
    Event* passed = nullptr;
    return find_event(driver, event, &passed);
  });
}

orError_t orEventElapsedTime(double* milliseconds, orEvent_t start, orEvent_t end) {
  return call("orEventElapsedTime", [&](Driver& driver) {
    if (milliseconds == nullptr) return fail(orErrorInvalidValue, "milliseconds is null");
    Event* first = nullptr;
    if (const orError_t error = find_event(driver, start, &first)) return error;
    Event* second = nullptr;
    if (const orError_t error = find_event(driver, end, &second)) return error;
    if (!first->timing || !second->timing) {
      return fail(orErrorInvalidValue, "an event was created with orEventDisableTiming");
    }
    if (!first->recorded || !second->recorded) return fail(orErrorInvalidValue, "an event was never recorded");
    if (first->device != second->device) {
      return fail(orErrorInvalidValue, "the start event belongs to openreg:%d and the end event to openreg:%d",
                  first->device, second->device);
    }
    *milliseconds = std::chrono::duration<double, std::milli>(*second->recorded - *first->recorded).count();
    return orSuccess;
  });
}
// LITERALINCLUDE END: minimal-events
