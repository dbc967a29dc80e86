// Device memory at addresses that mean nothing to the host, pinned memory, and what a pointer points to.
#include <cstdlib>
#include <iterator>
#include <memory>

#include "driver.h"

using namespace openreg::driver::minimal;
using openreg::driver::fail;

namespace openreg::driver::minimal {

// LITERALINCLUDE START: minimal-locate
std::optional<Location> locate(const Driver& driver, const void* pointer) {
  const uintptr_t from_tag = reinterpret_cast<uintptr_t>(pointer) - kTag;
  const uintptr_t device = from_tag >> kDeviceShift;
  const size_t offset = from_tag & ((uintptr_t{1} << kDeviceShift) - 1);
  if (device >= driver.devices.size() || offset >= driver.devices[device].total) return std::nullopt;
  return Location{static_cast<int>(device), offset};
}

void* address_of(Location location) {
  return reinterpret_cast<void*>(kTag + (static_cast<uintptr_t>(location.device) << kDeviceShift) + location.offset);
}

orError_t find_allocation(const Device& device, Location location, size_t* start, size_t* bytes) {
  const auto after = device.allocations.upper_bound(location.offset);
  if (after != device.allocations.begin()) {
    const auto& [offset, size] = *std::prev(after);
    if (location.offset - offset < size) {
      *start = offset;
      *bytes = size;
      return orSuccess;
    }
  }
  return fail(orErrorFreedPointer, "openreg:%d + 0x%zx is not allocated, or no longer", location.device,
              location.offset);
}
// LITERALINCLUDE END: minimal-locate

namespace {

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// LITERALINCLUDE START: minimal-room
// First fit. The caching allocator above asks rarely, and for large blocks.
std::optional<size_t> find_room(const Device& device, size_t bytes) {
  size_t start = 0;
  for (const auto& [offset, size] : device.allocations) {
    if (offset - start >= bytes) return start;
    start = offset + round_up(size);
  }
  return device.total - start >= bytes ? std::optional(start) : std::nullopt;
}
// LITERALINCLUDE END: minimal-room

size_t free_bytes(const Device& device) {
  size_t free = device.total;
  for (const auto& [offset, size] : device.allocations) free -= round_up(size);
  return free;
}

// The pinned block that contains the pointer; end() if there is none.
std::map<uintptr_t, size_t>::iterator find_pinned(Driver& driver, const void* pointer) {
  const auto number = reinterpret_cast<uintptr_t>(pointer);
  const auto after = driver.pinned.upper_bound(number);
  if (after == driver.pinned.begin()) return driver.pinned.end();
  const auto block = std::prev(after);
  return number - block->first < block->second ? block : driver.pinned.end();
}

}  // namespace
}  // namespace openreg::driver::minimal

// LITERALINCLUDE START: minimal-malloc
orError_t orMalloc(void** pointer, size_t bytes) {
  return call("orMalloc", [&](Driver& driver) {
    if (pointer == nullptr) return fail(orErrorInvalidValue, "pointer is null");
    *pointer = nullptr;
    if (bytes == 0) return orSuccess;
    const int index = current_device();
    Device& device = driver.devices[static_cast<size_t>(index)];
    const auto start = bytes <= device.total ? find_room(device, round_up(bytes)) : std::nullopt;
    if (!start) {
      return fail(orErrorMemoryAllocation, "openreg:%d has no room for %zu bytes; %zu of %zu bytes are free", index,
                  bytes, free_bytes(device), device.total);
    }
    device.allocations.emplace(*start, bytes);
    *pointer = address_of({index, *start});
    return orSuccess;
  });
}

orError_t orFree(void* pointer) {
  return call("orFree", [&](Driver& driver) {
    if (pointer == nullptr) return orSuccess;
    const auto location = locate(driver, pointer);
    if (!location) return fail(orErrorInvalidPointer, "%p is not device memory", pointer);
    Device& device = driver.devices[static_cast<size_t>(location->device)];
    size_t start = 0;
    size_t bytes = 0;
    if (const orError_t error = find_allocation(device, *location, &start, &bytes)) return error;
    if (start != location->offset) {
      return fail(orErrorMisalignedPointer, "openreg:%d + 0x%zx lies %zu bytes inside an allocation; pass its start",
                  location->device, location->offset, location->offset - start);
    }
    device.allocations.erase(start);
    return orSuccess;
  });
}
// LITERALINCLUDE END: minimal-malloc

orError_t orMemGetInfo(size_t* free, size_t* total) {
  return call("orMemGetInfo", [&](Driver& driver) {
    if (free == nullptr || total == nullptr) return fail(orErrorInvalidValue, "free_bytes or total_bytes is null");
    const Device& device = driver.devices[static_cast<size_t>(current_device())];
    *free = free_bytes(device);
    *total = device.total;
    return orSuccess;
  });
}

// LITERALINCLUDE START: minimal-pinned
// To a driver that copies on the CPU, all host memory is alike; pinned memory differs only in being recorded.
orError_t orMallocHost(void** pointer, size_t bytes) {
  return call("orMallocHost", [&](Driver& driver) {
    if (pointer == nullptr) return fail(orErrorInvalidValue, "pointer is null");
    *pointer = nullptr;
    if (bytes == 0) return orSuccess;
    void* const block = bytes <= SIZE_MAX - kAlignment ? std::aligned_alloc(kAlignment, round_up(bytes)) : nullptr;
    if (block == nullptr) return fail(orErrorMemoryAllocation, "the host has no room for %zu bytes", bytes);
    std::unique_ptr<void, decltype(&std::free)> owned(block, &std::free);  // a block without a record is freed
    driver.pinned.emplace(reinterpret_cast<uintptr_t>(block), bytes);
    *pointer = owned.release();
    return orSuccess;
  });
}

orError_t orFreeHost(void* pointer) {
  return call("orFreeHost", [&](Driver& driver) {
    if (pointer == nullptr) return orSuccess;
    const auto block = find_pinned(driver, pointer);
    if (block == driver.pinned.end()) {
      return fail(orErrorInvalidPointer, "%p is not from orMallocHost, or was freed before", pointer);
    }
    if (block->first != reinterpret_cast<uintptr_t>(pointer)) {
      return fail(orErrorMisalignedPointer, "%p lies inside pinned memory; pass its start", pointer);
    }
    driver.pinned.erase(block);
    std::free(pointer);
    return orSuccess;
  });
}
// LITERALINCLUDE END: minimal-pinned

// LITERALINCLUDE START: minimal-pointer
orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer) {
  return call("orPointerGetAttributes", [&](Driver& driver) {
    if (attributes == nullptr) return fail(orErrorInvalidValue, "attributes is null");
    *attributes = orPointerAttributes{orMemoryTypeUnregistered, -1, nullptr, 0};
    if (const auto location = locate(driver, pointer)) {
      size_t start = 0;
      size_t bytes = 0;
      const Device& device = driver.devices[static_cast<size_t>(location->device)];
      if (const orError_t error = find_allocation(device, *location, &start, &bytes)) return error;
      *attributes = {orMemoryTypeDevice, location->device, address_of({location->device, start}), bytes};
    } else if (const auto block = find_pinned(driver, pointer); block != driver.pinned.end()) {
      *attributes = {orMemoryTypeHost, -1, reinterpret_cast<void*>(block->first), block->second};
    }
    return orSuccess;
  });
}
// LITERALINCLUDE END: minimal-pointer
