// Shareable device memory, for openreg_ipc.h. Its pages belong to a file, which other processes map as well.
#include <unistd.h>

#include <cstring>

#include "driver.h"
#include "error.h"
#include "ipc.h"
#include "memory.h"
#include "openreg_ipc.h"

using namespace openreg::driver;

static_assert(sizeof(ExportedFile) <= sizeof(orIpcMemoryHandle::bytes));

// LITERALINCLUDE START: ipc-malloc
orError_t orMallocShareable(void** pointer, size_t bytes) {
  const Call call("orMallocShareable");
  if (pointer == nullptr) return fail(orErrorInvalidValue, "pointer is null");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  return allocate(*driver, driver->current_device(), bytes, pointer, &DeviceMemory::allocate_shared);
}
// LITERALINCLUDE END: ipc-malloc

// LITERALINCLUDE START: ipc-memory-handle
namespace {

// Finds the device and the offset of device memory, unless the device has failed.
orError_t find_memory(const void* pointer, Device** device, size_t* offset) {
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  const auto location = driver->space.locate(pointer);
  if (!location) return fail(orErrorInvalidPointer, "%p is not device memory", pointer);
  *device = &driver->devices[static_cast<size_t>(location->device)];
  *offset = location->offset;
  return (*device)->failure.refuse();
}

}  // namespace

orError_t orIpcGetMemoryHandle(orIpcMemoryHandle* handle, void* pointer) {
  const Call call("orIpcGetMemoryHandle");
  if (handle == nullptr) return fail(orErrorInvalidValue, "handle is null");
  Device* device = nullptr;
  size_t offset = 0;
  if (const orError_t error = find_memory(pointer, &device, &offset)) return error;
  ExportedFile exported{};
  if (const orError_t error = device->memory.export_shared(offset, &exported)) return error;
  *handle = {};
  std::memcpy(handle->bytes, &exported, sizeof(exported));
  return orSuccess;
}

orError_t orIpcOpenMemoryHandle(void** pointer, const orIpcMemoryHandle* handle) {
  const Call call("orIpcOpenMemoryHandle");
  if (pointer == nullptr || handle == nullptr) return fail(orErrorInvalidValue, "pointer or handle is null");
  Device* device = nullptr;
  if (const orError_t error = get_current_device(&device)) return error;
  ExportedFile exported{};
  std::memcpy(&exported, handle->bytes, sizeof(exported));
  int file = -1;
  const size_t file_bytes = DeviceMemory::shared_bytes(exported.bytes);
  if (const orError_t error = open_exported(exported, ExportedKind::kMemory, device->index, file_bytes, &file)) {
    return error;
  }
  size_t offset = 0;
  const orError_t error = device->memory.open_shared(exported.bytes, file, &offset);
  close(file);  // the mapping keeps the memory
  if (error != orSuccess) return error;
  *pointer = started_driver()->space.device_pointer({device->index, offset});
  return orSuccess;
}

orError_t orIpcCloseMemory(void* pointer) {
  const Call call("orIpcCloseMemory");
  Device* device = nullptr;
  size_t offset = 0;
  if (const orError_t error = find_memory(pointer, &device, &offset)) return error;
  rest_if_process_is_ending();
  if (const orError_t error = process_is_ending() ? orSuccess : device->synchronize()) return error;
  return device->memory.free_opened(offset);
}
// LITERALINCLUDE END: ipc-memory-handle
