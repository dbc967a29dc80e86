// Device memory: the allocator behind every tensor on an openreg device.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace openreg {

// The allocator that is registered for PrivateUse1. Never destroyed, since tensors may outlive static destruction.
c10::DeviceAllocator& allocator();

}  // namespace openreg
