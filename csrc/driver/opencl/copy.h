// Looks up what a pointer refers to in a copy or a fill.
#pragma once

#include <cstddef>

#include "device.h"

namespace openreg::driver::opencl {

struct Driver;

// One side of a copy.
struct Side {
  Device* device = nullptr;  // null for host memory
  bool pinned = false;

  [[nodiscard]] bool pageable() const { return device == nullptr && !pinned; }
};

// Looks up a side. Fails if the bytes run past the end of an allocation or of pinned memory.
orError_t look_up(Driver& driver, const char* name, const void* pointer, size_t bytes, Side* side);
// The same for a pointer that must be device memory.
orError_t look_up_device(Driver& driver, const void* pointer, size_t bytes, Side* side);
orError_t look_up_both(Driver& driver, void* dst, const void* src, size_t dst_bytes, size_t src_bytes,
                       orMemcpyKind kind, Side* dst_side, Side* src_side);
// The kind of a copy between the sides.
orMemcpyKind kind_of(const Side& dst, const Side& src);

}  // namespace openreg::driver::opencl
