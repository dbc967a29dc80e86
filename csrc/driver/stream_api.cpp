// The stream functions of the interface, except orStreamWaitEvent, which is in event.cpp.
#include <algorithm>

#include "capture.h"
#include "driver.h"
#include "error.h"

using namespace openreg::driver;

namespace {

// LITERALINCLUDE START: stream-object
// The simulated device treats all streams alike; it has two priorities so that code that requests one has a choice.
constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -1;

constexpr const char* kNothingRuns = "what it has recorded does not run, so there is nothing to wait for";

orError_t create_stream(orStream_t* stream, int priority) {
  if (stream == nullptr) return fail(orErrorInvalidValue, "stream is null");
  Device* device = nullptr;
  if (const orError_t error = get_current_device(&device)) return error;
  uint32_t index = 0;
  Stream* const object = device->streams.take(&index);
  if (object == nullptr) {
    return fail(orErrorMemoryAllocation, "no stream is left on openreg:%d, where %zu can exist; destroy some",
                device->index, device->streams.kCapacity);
  }
  const uint64_t generation = object->begin(*device, index, std::clamp(priority, kHighestPriority, kLowestPriority));
  *stream = object->handle(generation);
  return orSuccess;
}
// LITERALINCLUDE END: stream-object

}  // namespace

// LITERALINCLUDE START: stream-default
orError_t orDeviceGetDefaultStream(orStream_t* stream, int device) {
  const Call call("orDeviceGetDefaultStream");
  if (stream == nullptr) return fail(orErrorInvalidValue, "stream is null");
  Device* owner = nullptr;
  if (const orError_t error = get_device_in_kernel(device, &owner)) return error;
  const Stream& object = *owner->streams.at(0);
  *stream = object.handle(object.generation.load());
  return orSuccess;
}

orError_t orDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  const Call call("orDeviceGetStreamPriorityRange");
  if (lowest == nullptr || highest == nullptr) return fail(orErrorInvalidValue, "lowest or highest is null");
  *lowest = kLowestPriority;
  *highest = kHighestPriority;
  return orSuccess;
}
// LITERALINCLUDE END: stream-default

// LITERALINCLUDE START: stream-life
orError_t orStreamCreate(orStream_t* stream) {
  const Call call("orStreamCreate");
  return create_stream(stream, kLowestPriority);
}

orError_t orStreamCreateWithPriority(orStream_t* stream, int priority) {
  const Call call("orStreamCreateWithPriority");
  return create_stream(stream, priority);
}

orError_t orStreamDestroy(orStream_t stream) {
  const Call call("orStreamDestroy");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  Device& device = ref.stream->device();
  const uint32_t index = ref.stream->index();
  if (index == 0) {
    return fail(orErrorInvalidValue, "this is the default stream of openreg:%d, which cannot be destroyed",
                device.index);
  }
  if (const orError_t error = device.failure.refuse()) return error;
  if (const orError_t error = refuse_if_captured(*ref.stream, "cannot be destroyed while captured")) return error;
  if (const orError_t error = ref.stream->end(ref.generation)) return error;
  device.streams.give_back(index);
  return orSuccess;
}
// LITERALINCLUDE END: stream-life

// LITERALINCLUDE START: stream-facts
orError_t orStreamGetDevice(orStream_t stream, int* device) {
  const Call call("orStreamGetDevice");
  if (device == nullptr) return fail(orErrorInvalidValue, "device is null");
  StreamRef ref;
  if (const orError_t error = get_stream_in_kernel(stream, &ref)) return error;
  *device = ref.stream->device().index;
  return orSuccess;
}

orError_t orStreamGetPriority(orStream_t stream, int* priority) {
  const Call call("orStreamGetPriority");
  if (priority == nullptr) return fail(orErrorInvalidValue, "priority is null");
  StreamRef ref;
  if (const orError_t error = get_stream_in_kernel(stream, &ref)) return error;
  *priority = ref.stream->priority();
  return orSuccess;
}
// LITERALINCLUDE END: stream-facts

// LITERALINCLUDE START: stream-progress
orError_t orStreamSynchronize(orStream_t stream) {
  const Call call("orStreamSynchronize");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  if (const orError_t error = refuse_if_captured(*ref.stream, kNothingRuns)) return error;
  return ref.stream->device().synchronize(*ref.stream, ref.stream->queued());
}

orError_t orStreamQuery(orStream_t stream) {
  const Call call("orStreamQuery");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  if (const orError_t error = refuse_if_captured(*ref.stream, kNothingRuns)) return error;
  const bool idle = ref.stream->idle();
  if (const orError_t error = ref.stream->device().failure.report()) return error;
  return idle ? orSuccess : orErrorNotReady;
}
// LITERALINCLUDE END: stream-progress
