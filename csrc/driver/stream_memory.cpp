// Stream-ordered allocation, for openreg_extended.h.
#include "capture.h"
#include "driver.h"
#include "error.h"
#include "memory.h"
#include "openreg_extended.h"

using namespace openreg::driver;

namespace {

// LITERALINCLUDE START: stream-memory-work
constexpr const char* kNoMemory = "a graph neither allocates nor frees memory; use orMalloc";

// Frees memory when the stream reaches this point. If the device fails, it is dropped with the other work, and the
// reset frees the memory.
struct FreeWork {
  DeviceMemory::Retired retired;

  void run(Device& device) { device.memory.free(retired); }
  void release() {}
};
// LITERALINCLUDE END: stream-memory-work

}  // namespace

// LITERALINCLUDE START: stream-ordered-memory
// The memory is available at once, and therefore to all work queued later.
orError_t orMallocAsync(void** pointer, size_t bytes, orStream_t stream) {
  const Call call("orMallocAsync");
  if (pointer == nullptr) return fail(orErrorInvalidValue, "pointer is null");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  if (const orError_t error = refuse_if_captured(*ref.stream, kNoMemory)) return error;
  return allocate(*started_driver(), ref.stream->device(), bytes, pointer);
}

orError_t orFreeAsync(void* pointer, orStream_t stream) {
  const Call call("orFreeAsync");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  if (pointer == nullptr) return orSuccess;
  Device& device = ref.stream->device();
  Location location;
  if (const orError_t error = locate_for_free(*started_driver(), pointer, &location)) return error;
  if (location.device != device.index) {
    return fail(orErrorInvalidValue, "the memory lies on openreg:%d and the stream belongs to openreg:%d",
                location.device, device.index);
  }
  if (const orError_t error = device.failure.refuse()) return error;
  if (const orError_t error = refuse_if_captured(*ref.stream, kNoMemory)) return error;
  DeviceMemory::Retired retired{};
  if (const orError_t error = device.memory.retire(location.offset, &retired)) return error;
  uint64_t sequence = 0;
  const orError_t error =
      ref.stream->submit(ref.generation, Task(FreeWork{retired}), device.placement(0), &sequence, kNoMemory);
  if (error != orSuccess) {
    device.memory.restore(retired);  // NOT PROVEN: needs a reset or a capture meanwhile
  }
  return error;
}
// LITERALINCLUDE END: stream-ordered-memory
