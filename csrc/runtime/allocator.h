// Device memory: the allocator behind every tensor on an openreg device.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <vector>

#include "runtime/block_pool.h"
#include "runtime/export.h"

namespace openreg {

// The allocator that is registered for PrivateUse1. Never destroyed, since tensors may outlive static destruction.
c10::DeviceAllocator& allocator();

// Bounds what this process may hold of a device's memory, as a fraction of all of it, over 0 and up to 1.
OPENREG_EXPORT void set_memory_fraction(double fraction, int64_t index);

// All blocks of a device, by address.
OPENREG_EXPORT std::vector<Block> memory_blocks(int64_t index);

}  // namespace openreg
