// The interface functions that allocate device memory and report what a pointer points to.
#include "memory.h"

#include "error.h"
#include "pinned.h"

namespace openreg::driver {

// LITERALINCLUDE START: memory-not-from-malloc
// Finds the device memory that a pointer to be freed points to.
orError_t locate_for_free(const Driver& driver, const void* pointer, Location* location) {
  if (const auto found = driver.space.locate(pointer)) {
    *location = *found;
    return orSuccess;
  }
  if (find_pinned(pointer)) return fail(orErrorInvalidPointer, "%p is pinned memory; free it with orFreeHost", pointer);
  return fail(orErrorInvalidPointer, "%p is not device memory", pointer);
}
// LITERALINCLUDE END: memory-not-from-malloc

// LITERALINCLUDE START: memory-malloc
orError_t allocate(Driver& driver, Device& device, size_t bytes, void** pointer, Allocate allocate_in) {
  if (const orError_t error = device.failure.refuse()) return error;
  *pointer = nullptr;
  if (device.faults.take(orFaultAllocation)) {
    return fail(orErrorMemoryAllocation, "openreg:%d has no room for %zu bytes (injected fault)", device.index, bytes);
  }
  if (bytes == 0) return orSuccess;
  size_t offset = 0;
  if (const orError_t error = (device.memory.*allocate_in)(bytes, &offset)) return error;
  *pointer = driver.space.device_pointer({device.index, offset});
  return orSuccess;
}

}  // namespace openreg::driver

using namespace openreg::driver;

orError_t orMalloc(void** pointer, size_t bytes) {
  const Call call("orMalloc");
  if (pointer == nullptr) return fail(orErrorInvalidValue, "pointer is null");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  return allocate(*driver, driver->current_device(), bytes, pointer);
}
// LITERALINCLUDE END: memory-malloc

// LITERALINCLUDE START: memory-release
orError_t orFree(void* pointer) {
  const Call call("orFree");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  if (pointer == nullptr) return orSuccess;
  Location location;
  if (const orError_t error = locate_for_free(*driver, pointer, &location)) return error;
  Device& device = driver->devices[static_cast<size_t>(location.device)];
  if (const orError_t error = device.failure.refuse()) return error;
  if (const orError_t error = device.memory.check_start(location.offset)) return error;
  rest_if_process_is_ending();
  // On the thread that ends the process, no worker is left that could use the memory, although its work was dropped.
  if (const orError_t error = process_is_ending() ? orSuccess : device.synchronize()) return error;
  return device.memory.free(location.offset);
}
// LITERALINCLUDE END: memory-release

// LITERALINCLUDE START: memory-room-left
orError_t orMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const Call call("orMemGetInfo");
  if (free_bytes == nullptr || total_bytes == nullptr) {
    return fail(orErrorInvalidValue, "free_bytes or total_bytes is null");
  }
  Device* device = nullptr;
  if (const orError_t error = get_current_device(&device)) return error;
  *free_bytes = device->memory.free_bytes();
  *total_bytes = device->memory.total_bytes();
  return orSuccess;
}
// LITERALINCLUDE END: memory-room-left

// LITERALINCLUDE START: memory-attributes
orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer) {
  const Call call("orPointerGetAttributes");
  if (attributes == nullptr) return fail(orErrorInvalidValue, "attributes is null");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver_in_kernel(&driver)) return error;
  *attributes = orPointerAttributes{orMemoryTypeUnregistered, -1, nullptr, 0};
  if (const auto location = driver->space.locate(pointer)) {
    Device& device = driver->devices[static_cast<size_t>(location->device)];
    if (const orError_t error = device.failure.refuse()) return error;
    DeviceMemory::Allocation allocation;
    if (const orError_t error = device.memory.find(location->offset, &allocation)) return error;
    void* const base = driver->space.device_pointer({device.index, allocation.offset});
    *attributes = orPointerAttributes{orMemoryTypeDevice, device.index, base, allocation.bytes};
  } else if (const auto block = find_pinned(pointer)) {
    *attributes = orPointerAttributes{orMemoryTypeHost, -1, block->base, block->bytes};
  }
  return orSuccess;
}
// LITERALINCLUDE END: memory-attributes
