// The memory of one device: regions of shared virtual memory, and the allocations in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "opencl.h"

namespace openreg::driver::opencl {

// LITERALINCLUDE START: opencl-arena
// OpenCL allocates memory in whole objects of limited size, and cannot tell where an address lies. Memory is therefore
// taken in large regions, which are kept when they become empty: an unallocated address in a region is known to have
// been freed. A region is released only when another needs its room.
// Thread: safe.
class Arena {
 public:
  static constexpr size_t kAlignment = 512;

  struct Block {
    uintptr_t start;
    size_t bytes;         // as requested
    uint64_t clears = 0;  // how often the arena had been cleared
  };
  enum class Place { kElsewhere, kFree, kAllocated };

  Arena(cl_context context, size_t total) : context_(context), total_(total) {}

  // Empty if there is no room. `may_drop`: empty regions may be returned to OpenCL, since no kernel is queued that
  // names them.
  std::optional<uintptr_t> allocate(size_t bytes, bool may_drop);
  // Where the address lies, and the block that contains it if it is allocated.
  Place find(uintptr_t address, Block* block) const;
  // The functions below take a block from `find`, or from `retire`. `clear` may have released it meanwhile, and its
  // place may be in use again: then they change nothing.
  // False if the block is no longer allocated.
  bool release(const Block& block);
  // Hides the block, which stays in use until `reclaim`. False if it is no longer allocated.
  bool retire(const Block& block);
  void reclaim(const Block& retired);
  // Turns a retired block into an allocation again; false if it is no longer in use. Requires: both sizes round up to
  // the same number.
  bool reuse(const Block& retired, size_t bytes);

  // Releases all blocks, retired ones too, and keeps the regions.
  void clear();

  [[nodiscard]] size_t free_bytes() const;
  [[nodiscard]] size_t total_bytes() const noexcept { return total_; }
  // The regions, for kernels that access memory through pointers in structs; `version` changes when they do.
  std::vector<void*> regions(uint64_t* version) const;
  // The bytes from the address to the end of its region; 0 outside all regions.
  [[nodiscard]] size_t bytes_in_region(uintptr_t address) const;

  static size_t round_up(size_t bytes) noexcept { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
  static size_t round_down(size_t bytes) noexcept { return bytes / kAlignment * kAlignment; }

 private:
  struct Region {
    void* memory;  // from clSVMAlloc
    size_t bytes;  // from the aligned start on
  };
  using Regions = std::map<uintptr_t, Region>;

  bool add_region(size_t bytes, bool may_drop);
  void drop_empty_regions();
  void add_gap(uintptr_t start, size_t bytes);
  void remove_gap(std::map<uintptr_t, size_t>::iterator gap);
  [[nodiscard]] Regions::const_iterator region_of(uintptr_t address) const;

  const cl_context context_;
  const size_t total_;
  mutable std::mutex mutex_;  // guards all below
  Regions regions_;  // by their aligned start
  std::map<uintptr_t, size_t> blocks_;  // bytes as requested, by start
  std::map<uintptr_t, size_t> gaps_;  // free bytes, by start
  std::set<std::pair<size_t, uintptr_t>> gap_sizes_;  // the same, the smallest first
  size_t reserved_ = 0;  // bytes of all regions
  size_t used_ = 0;  // bytes of all blocks, rounded up, retired ones included
  uint64_t version_ = 0;
  uint64_t clears_ = 0;  // calls of `clear`
};
// LITERALINCLUDE END: opencl-arena

}  // namespace openreg::driver::opencl
