// The memory of one device: which parts are allocated, and which are free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "address_space.h"
#include "openreg.h"

namespace openreg::driver {

struct ExportedFile;

// Thread: safe; every function takes the object's own lock, and none waits for anything else.
class DeviceMemory {
 public:
  static constexpr size_t kAlignment = 512;

// LITERALINCLUDE START: memory-device-contract
  struct Allocation {
    size_t offset = 0;
    size_t bytes = 0;  // as requested
  };

  DeviceMemory(int device, const AddressSpace& space);

  // Finds room for `bytes` (not zero) and makes it accessible to kernels.
  orError_t allocate(size_t bytes, size_t* offset);
  // The same for whole pages of a new file, and for a file that another process has made.
  orError_t allocate_shared(size_t bytes, size_t* offset);
  orError_t open_shared(size_t bytes, int file, size_t* offset);
  // The size of the pages that hold so many bytes of shared memory.
  [[nodiscard]] static size_t shared_bytes(size_t bytes) noexcept;
  // Describes memory from allocate_shared that starts at the offset, for other processes.
  orError_t export_shared(size_t offset, ExportedFile* exported) const;
  // Frees memory from open_shared that starts at the offset.
  orError_t free_opened(size_t offset);
  // Checks that an allocation of this process starts at the offset.
  orError_t check_start(size_t offset) const;
  // Frees the allocation that starts at the offset. Large ones give their pages back to the host.
  orError_t free(size_t offset);
  // The same in two steps: retire makes the allocation unusable at once, and it is freed later, or restored instead.
  // After a clear() in between, which has freed it, both do nothing.
  struct Retired {
    size_t offset;
    uint64_t clears;  // before
  };
  orError_t retire(size_t offset, Retired* retired);
  void free(Retired retired);
  void restore(Retired retired);
  // Finds the allocation that contains the offset.
  orError_t find(size_t offset, Allocation* allocation) const;
  // Checks that `bytes` from the offset on lie in one allocation.
  orError_t check_range(size_t offset, size_t bytes) const;
  // Frees everything and gives all pages back.
  void clear();

  [[nodiscard]] size_t free_bytes() const;
  [[nodiscard]] size_t total_bytes() const { return capacity_; }
  // LITERALINCLUDE END: memory-device-contract

 private:
  // LITERALINCLUDE START: memory-blocks
  // (bytes, offset) of each free block: the first that is large enough fits best.
  using FreeBlocks = std::set<std::pair<size_t, size_t>>;
  struct Block {
    size_t bytes;  // a multiple of kAlignment
    size_t requested;  // 0 for a free block
    bool retired = false;
    // Whether its pages belong to a file, and the file, unless another process has made it.
    bool shared = false;
    int file = -1;
    // Its entry in the free blocks, kept while the block is in use, so that freeing it allocates nothing.
    FreeBlocks::node_type entry{};
  };
  // Every byte of the memory belongs to one block; the key is its offset. Two free blocks are never adjacent.
  using Blocks = std::map<size_t, Block>;

  // All below: Requires: mutex_ is held.
  orError_t find_locked(size_t offset, Blocks::const_iterator* found) const;
  orError_t find_start_locked(size_t offset, Blocks::const_iterator* found) const;
  orError_t find_own_locked(size_t offset, Blocks::const_iterator* found) const;
  orError_t allocate_locked(size_t bytes, size_t alignment, size_t* offset);
  orError_t map_locked(size_t offset, int file, int own_file);
  orError_t add_free_block(size_t start, size_t bytes);
  orError_t split(FreeBlocks::iterator* free, size_t bytes);
  orError_t commit(size_t end);
  void free_locked(size_t offset);
  bool unshare(Blocks::iterator block) const;
  Blocks::iterator make_free(Blocks::iterator block);
  void give_back_pages(size_t begin, size_t end) const;

  const int device_;
  const AddressSpace& space_;
  const size_t capacity_;
  mutable std::mutex mutex_;
  Blocks blocks_;
  FreeBlocks free_blocks_;
  size_t free_bytes_;
  uint64_t clears_ = 0;
  size_t committed_ = 0;  // bytes from the start that kernels can access; never shrinks
  // LITERALINCLUDE END: memory-blocks
};

}  // namespace openreg::driver
