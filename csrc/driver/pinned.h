// The pinned host memory that the driver knows: allocated by it, or registered.
#pragma once

#include <cstddef>
#include <optional>

namespace openreg::driver {

struct PinnedBlock {
  void* base = nullptr;
  size_t bytes = 0;         // as requested
  bool registered = false;  // by orHostRegister: the driver does not own the memory
};

// The block that contains the pointer.
// Thread: any; takes a lock only while pinned memory exists.
std::optional<PinnedBlock> find_pinned(const void* pointer);

}  // namespace openreg::driver
