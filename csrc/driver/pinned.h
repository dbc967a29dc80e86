// The pinned host memory that the driver has handed out.
#pragma once

#include <cstddef>
#include <optional>

namespace openreg::driver {

struct PinnedBlock {
  void* base = nullptr;
  size_t bytes = 0;         // as requested
  bool registered = false;  // by orHostRegister: the memory is somebody else's
};

// The block that the pointer lies in.
// Thread: any; takes a lock only while pinned memory exists.
std::optional<PinnedBlock> find_pinned(const void* pointer);

}  // namespace openreg::driver
