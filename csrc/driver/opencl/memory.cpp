// Device memory, and what a pointer points to.
#include "memory.h"

#include <algorithm>

#include "driver.h"

namespace openreg::driver::opencl {

orError_t fail_freed(const Device& device, const void* pointer) {
  return fail(orErrorFreedPointer, "%p on openreg:%d is not allocated, or no longer", pointer, device.index);
}

void reclaim_retired(Device& device) {
  const std::lock_guard lock(device.retired_mutex);
  std::erase_if(device.retired, [&](const Retired& retired) {
    if (!has_ended(retired.until)) return false;
    device.arena.reclaim(retired.block);
    return true;
  });
}

orError_t fail_no_room(const Device& device, size_t bytes) {
  return fail(orErrorMemoryAllocation, "openreg:%d has no room for %zu bytes; %zu of %zu bytes are free", device.index,
              bytes, device.arena.free_bytes(), device.arena.total_bytes());
}

orError_t find_allocation(Driver& driver, const void* pointer, Device** device, Arena::Block* block) {
  Arena::Place place{};
  *device = driver.device_of(pointer, &place, block);
  if (*device == nullptr) return fail(orErrorInvalidPointer, "%p is not device memory", pointer);
  if (place == Arena::Place::kFree) return fail_freed(**device, pointer);
  if (block->start != reinterpret_cast<uintptr_t>(pointer)) {
    return fail(orErrorMisalignedPointer, "%p lies %zu bytes inside an allocation on openreg:%d; pass its start",
                pointer, reinterpret_cast<uintptr_t>(pointer) - block->start, (*device)->index);
  }
  return orSuccess;
}

}  // namespace openreg::driver::opencl

using namespace openreg::driver::opencl;
using openreg::driver::fail;

namespace {

// Allocates memory on the device; if it is short, waits for the device: then the blocks that orFreeAsync has freed are
// free, and no kernel is queued that names an empty region, as each names all. (One that another thread queues from now
// on names what there is then.)
std::optional<uintptr_t> take_memory(Device& device, size_t bytes) {
  reclaim_retired(device);
  if (const auto start = device.arena.allocate(bytes, /*may_drop=*/false)) return start;
  device.finish();
  reclaim_retired(device);
  return device.arena.allocate(bytes, /*may_drop=*/true);
}

}  // namespace

orError_t orMalloc(void** pointer, size_t bytes) {
  return call("orMalloc", [&](Driver& driver) {
    if (pointer == nullptr) return fail(orErrorInvalidValue, "pointer is null");
    *pointer = nullptr;
    Device& device = driver.current();
    if (const orError_t error = device.failure.refuse()) return error;
    if (bytes == 0) return orSuccess;
    const auto start = take_memory(device, bytes);
    if (!start) return fail_no_room(device, bytes);
    *pointer = reinterpret_cast<void*>(*start);
    return orSuccess;
  });
}

orError_t orFree(void* pointer) {
  return call("orFree", [&](Driver& driver) {
    if (pointer == nullptr) return orSuccess;
    Device* device = nullptr;
    Arena::Block block{};
    if (const orError_t error = find_allocation(driver, pointer, &device, &block)) return error;
    if (const orError_t error = device->synchronize()) return error;
    return device->arena.release(block) ? orSuccess : fail_freed(*device, pointer);
  });
}

orError_t orMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call("orMemGetInfo", [&](Driver& driver) {
    if (free_bytes == nullptr || total_bytes == nullptr) {
      return fail(orErrorInvalidValue, "free_bytes or total_bytes is null");
    }
    Device& device = driver.current();
    if (const orError_t error = device.failure.refuse()) return error;
    reclaim_retired(device);
    *free_bytes = device.arena.free_bytes();
    *total_bytes = device.arena.total_bytes();
    return orSuccess;
  });
}

orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer) {
  return call_in_kernel("orPointerGetAttributes", [&](Driver& driver) {
    if (attributes == nullptr) return fail(orErrorInvalidValue, "attributes is null");
    *attributes = orPointerAttributes{orMemoryTypeUnregistered, -1, nullptr, 0};
    Arena::Place place{};
    Arena::Block block{};
    if (const Device* const device = driver.device_of(pointer, &place, &block)) {
      if (place == Arena::Place::kFree) return fail_freed(*device, pointer);
      *attributes = {orMemoryTypeDevice, device->index, reinterpret_cast<void*>(block.start), block.bytes};
    } else if (const auto pinned = driver.pinned.find(pointer)) {
      *attributes = {orMemoryTypeHost, -1, reinterpret_cast<void*>(pinned->start), pinned->bytes};
    }
    return orSuccess;
  });
}
