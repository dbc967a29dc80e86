// Host memory that the driver knows: allocated by it, or registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "opencl.h"

namespace openreg::driver::opencl {

struct PinnedBlock {
  enum class Kind {
    kShared,      // fine-grained shared virtual memory
    kMapped,      // a buffer in host memory, mapped for good
    kRegistered,  // memory that the driver does not own
  };

  Kind kind;
  uintptr_t start;
  size_t bytes;
  ClBuffer buffer;  // for kMapped
};

// Thread: safe.
class PinnedBlocks {
 public:
  // False if a part of the memory is already known.
  bool add(const PinnedBlock& block);
  [[nodiscard]] std::optional<PinnedBlock> find(const void* pointer) const;
  // False when no block starts there.
  bool remove(uintptr_t start);

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, PinnedBlock> blocks_;  // by start
};

}  // namespace openreg::driver::opencl
