// Pinned host memory, for tensor.pin_memory() and DataLoader(pin_memory=True).
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace openreg {

// The allocator that is registered as PrivateUse1's host allocator. Never destroyed.
at::HostAllocator& host_allocator();

// The start of the pinned memory in which the pointer lies, which is how the allocator knows it, or null.
void* pinned_memory_with(const void* pointer);

inline bool is_pinned(const void* pointer) { return pinned_memory_with(pointer) != nullptr; }

}  // namespace openreg
