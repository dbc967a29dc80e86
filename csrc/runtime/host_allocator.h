// Pinned host memory, for tensor.pin_memory() and DataLoader(pin_memory=True).
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace openreg {

// The allocator that is registered as PrivateUse1's host allocator. Never destroyed.
at::HostAllocator& host_allocator();

// Whether the pointer lies in memory from this allocator.
bool is_pinned(const void* pointer);

}  // namespace openreg
