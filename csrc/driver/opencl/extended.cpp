// Stream-ordered allocation, host functions and peer access. Registered memory is in pinned.cpp; pattern fills and 2D
// copies are in copy.cpp.
#include "../openreg_extended.h"

#include <algorithm>

#include "driver.h"
#include "memory.h"

using namespace openreg::driver::opencl;
using openreg::driver::fail;

namespace {

// Reuses a block that the same stream has freed: it is available to the stream's later work at once.
std::optional<uintptr_t> reuse_own(Device& device, uint64_t stream, size_t bytes) {
  const std::lock_guard lock(device.retired_mutex);
  const auto own = std::ranges::find_if(device.retired, [&](const Retired& retired) {
    return retired.stream == stream && Arena::round_up(retired.block.bytes) == Arena::round_up(bytes);
  });
  if (own == device.retired.end()) return std::nullopt;
  const Arena::Block block = own->block;
  device.retired.erase(own);
  if (!device.arena.reuse(block, bytes)) return std::nullopt;  // a reset has released it
  return block.start;
}

}  // namespace

orError_t orMallocAsync(void** pointer, size_t bytes, orStream_t stream) {
  return call("orMallocAsync", [&](Driver& driver) {
    if (pointer == nullptr) return fail(orErrorInvalidValue, "pointer is null");
    *pointer = nullptr;
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    Device& device = on->device();
    if (const orError_t error = device.failure.refuse()) return error;
    if (bytes == 0) return orSuccess;
    auto start = reuse_own(device, on->number(), bytes);
    if (!start) {  // without a wait for blocks that other streams still use
      reclaim_retired(device);
      start = device.arena.allocate(bytes, /*may_drop=*/false);
    }
    if (!start) return fail_no_room(device, bytes);
    *pointer = reinterpret_cast<void*>(*start);
    return orSuccess;
  });
}

orError_t orFreeAsync(void* pointer, orStream_t stream) {
  return call("orFreeAsync", [&](Driver& driver) {
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    if (const orError_t error = on->device().failure.refuse()) return error;
    if (pointer == nullptr) return orSuccess;
    Device* device = nullptr;
    Arena::Block block{};
    if (const orError_t error = find_allocation(driver, pointer, &device, &block)) return error;
    if (device != &on->device()) {
      return fail(orErrorInvalidValue, "the memory belongs to openreg:%d and the stream to openreg:%d", device->index,
                  on->device().index);
    }
    if (!device->arena.retire(block)) return fail_freed(*device, pointer);  // by another thread meanwhile
    const std::lock_guard lock(device->retired_mutex);
    device->retired.push_back(Retired{block, on->number(), on->last()});
    return orSuccess;
  });
}

orError_t orLaunchHostFunction(orStream_t stream, void (*function)(void* user), void* user) {
  return call("orLaunchHostFunction", [&](Driver& driver) {
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    if (function == nullptr) return fail(orErrorInvalidValue, "function is null");
    Hold hold;
    hold.function = function;
    hold.user = user;
    return queue_hold(*on, driver.host_functions, std::move(hold), Work::hidden());
  });
}

namespace {

orError_t find_pair(Driver& driver, int device, int peer) {
  Device* found = nullptr;
  if (const orError_t error = driver.find_device(device, &found)) return error;
  return driver.find_device(peer, &found);
}

}  // namespace

// Devices of one context share its memory: there is nothing to enable.
orError_t orDeviceCanAccessPeer(int* can_access, int device, int peer) {
  return call("orDeviceCanAccessPeer", [&](Driver& driver) {
    if (can_access == nullptr) return fail(orErrorInvalidValue, "can_access is null");
    if (const orError_t error = find_pair(driver, device, peer)) return error;
    *can_access = 1;
    return orSuccess;
  });
}

orError_t orDeviceEnablePeerAccess(int peer) {
  return call("orDeviceEnablePeerAccess", [&](Driver& driver) { return find_pair(driver, current_device(), peer); });
}

orError_t orDeviceDisablePeerAccess(int peer) {
  return call("orDeviceDisablePeerAccess", [&](Driver& driver) { return find_pair(driver, current_device(), peer); });
}
