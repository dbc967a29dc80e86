// Best fit over a map of all blocks; a freed block is coalesced with its free neighbors at once.
#include "device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

#include "error.h"
#include "ipc.h"

namespace openreg::driver {
namespace {

// Smaller blocks keep their pages: giving them back costs a system call, and touching them again a page fault.
constexpr size_t kGiveBackBytes = size_t{1} << 20;
// The unit of what is shared between processes: at least the host's page, on any host.
constexpr size_t kPage = size_t{64} << 10;

constexpr size_t round_up(size_t number, size_t multiple) { return (number + multiple - 1) / multiple * multiple; }

}  // namespace

DeviceMemory::DeviceMemory(int device, const AddressSpace& space)
    : device_(device), space_(space), capacity_(space.memory_per_device()), free_bytes_(capacity_) {
  blocks_.emplace(0, Block{capacity_, 0});
  free_blocks_.emplace(capacity_, 0);
}

// LITERALINCLUDE START: memory-allocate
orError_t DeviceMemory::allocate(size_t bytes, size_t* offset) {
  const std::lock_guard lock(mutex_);
  return allocate_locked(bytes, kAlignment, offset);
}

orError_t DeviceMemory::allocate_locked(size_t bytes, size_t alignment, size_t* offset) {
  const bool is_possible = bytes <= capacity_;  // close to 2^64, the sums below would wrap around
  const size_t needed = is_possible ? round_up(bytes, alignment) : 0;
  // Large enough, also behind the next multiple of the alignment.
  const auto fits = [&](const auto& block) {
    return round_up(block.second, alignment) - block.second + needed <= block.first;
  };
  auto fit = is_possible ? free_blocks_.lower_bound({needed, 0}) : free_blocks_.end();
  while (fit != free_blocks_.end() && !fits(*fit)) ++fit;
  if (fit == free_blocks_.end()) {
    const size_t largest = free_blocks_.empty() ? 0 : free_blocks_.rbegin()->first;
    return fail(orErrorMemoryAllocation,
                "openreg:%d has no room for %zu bytes; of its %zu bytes %zu are free, the largest piece has %zu",
                device_, bytes, capacity_, free_bytes_, largest);
  }
  const size_t start = round_up(fit->second, alignment);
  if (const orError_t error = commit(start + needed)) return error;
  if (start > fit->second) {
    if (const orError_t error = split(&fit, start - fit->second)) return error;
  }
  const auto block = blocks_.find(start);
  if (const size_t rest = block->second.bytes - needed; rest > 0) {
    if (const orError_t error = add_free_block(start + needed, rest)) {
      block->second.entry = free_blocks_.extract(fit);  // NOT PROVEN: needs a host that is out of memory
      make_free(block);                                 // NOT PROVEN: as above
      return error;                                     // NOT PROVEN: as above
    }
  }
  block->second = Block{needed, bytes, false, false, -1, free_blocks_.extract(fit)};
  free_bytes_ -= needed;
  *offset = start;
  return orSuccess;
}
// LITERALINCLUDE END: memory-allocate

orError_t DeviceMemory::check_start(size_t offset) const {
  const std::lock_guard lock(mutex_);
  Blocks::const_iterator found;
  return find_own_locked(offset, &found);
}

// LITERALINCLUDE START: memory-free
orError_t DeviceMemory::free(size_t offset) {
  const std::lock_guard lock(mutex_);
  Blocks::const_iterator found;
  if (const orError_t error = find_start_locked(offset, &found)) return error;
  free_locked(offset);
  return orSuccess;
}

void DeviceMemory::free_locked(size_t offset) {
  const auto block = blocks_.find(offset);
  const size_t bytes = block->second.bytes;
  if (block->second.shared) {
    if (!unshare(block)) return;
  } else if (bytes >= kGiveBackBytes) {
    give_back_pages(offset, offset + bytes);
  }
  free_bytes_ += bytes;
  make_free(block);
}

orError_t DeviceMemory::retire(size_t offset, Retired* retired) {
  const std::lock_guard lock(mutex_);
  Blocks::const_iterator found;
  if (const orError_t error = find_own_locked(offset, &found)) return error;
  blocks_.find(offset)->second.retired = true;
  *retired = Retired{offset, clears_};
  return orSuccess;
}

void DeviceMemory::restore(Retired retired) {  // NOT PROVEN: needs a reset in between, or a host without threads
  const std::lock_guard lock(mutex_);                                                   // NOT PROVEN: as above
  if (retired.clears == clears_) blocks_.find(retired.offset)->second.retired = false;  // NOT PROVEN: as above
}

void DeviceMemory::free(Retired retired) {
  const std::lock_guard lock(mutex_);
  if (retired.clears == clears_) free_locked(retired.offset);
}
// LITERALINCLUDE END: memory-free

// LITERALINCLUDE START: memory-check-range
orError_t DeviceMemory::find(size_t offset, Allocation* allocation) const {
  const std::lock_guard lock(mutex_);
  Blocks::const_iterator found;
  if (const orError_t error = find_locked(offset, &found)) return error;
  *allocation = Allocation{found->first, found->second.requested};
  return orSuccess;
}

orError_t DeviceMemory::check_range(size_t offset, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  Blocks::const_iterator found;
  if (const orError_t error = find_locked(offset, &found)) return error;
  const auto& [start, block] = *found;
  const size_t available = start + block.requested > offset ? start + block.requested - offset : 0;
  if (bytes > available) {
    return fail(
        orErrorOutOfRange,
        "%zu bytes at openreg:%d + 0x%zx run past the end of the allocation of %zu bytes at openreg:%d + 0x%zx; "
        "%zu bytes are left there",
        bytes, device_, offset, block.requested, device_, start, available);
  }
  return orSuccess;
}
// LITERALINCLUDE END: memory-check-range

// LITERALINCLUDE START: memory-clear
void DeviceMemory::clear() {
  const std::lock_guard lock(mutex_);
  ++clears_;
  give_back_pages(0, committed_);
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->second.requested == 0 || (block->second.shared && !unshare(block))) continue;
    free_bytes_ += block->second.bytes;
    block = make_free(block);
  }
}
// LITERALINCLUDE END: memory-clear

size_t DeviceMemory::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return free_bytes_;
}

// LITERALINCLUDE START: memory-find
orError_t DeviceMemory::find_locked(size_t offset, Blocks::const_iterator* found) const {
  const auto block = std::prev(blocks_.upper_bound(offset));
  if (block->second.requested == 0 || block->second.retired) {
    return fail(orErrorFreedPointer, "openreg:%d + 0x%zx is not allocated, or no longer", device_, offset);
  }
  *found = block;
  return orSuccess;
}

orError_t DeviceMemory::find_start_locked(size_t offset, Blocks::const_iterator* found) const {
  if (const orError_t error = find_locked(offset, found)) return error;
  const auto& [start, block] = **found;
  if (start != offset) {
    return fail(orErrorMisalignedPointer,
                "openreg:%d + 0x%zx lies %zu bytes inside the allocation of %zu bytes at openreg:%d + 0x%zx; pass its "
                "start",
                device_, offset, offset - start, block.requested, device_, start);
  }
  return orSuccess;
}
// LITERALINCLUDE END: memory-find

orError_t DeviceMemory::find_own_locked(size_t offset, Blocks::const_iterator* found) const {
  if (const orError_t error = find_start_locked(offset, found)) return error;
  if ((*found)->second.shared && (*found)->second.file < 0) {
    return fail(orErrorInvalidPointer, "openreg:%d + 0x%zx belongs to another process; close it with orIpcCloseMemory",
                device_, offset);
  }
  return orSuccess;
}

// LITERALINCLUDE START: ipc-allocate
orError_t DeviceMemory::allocate_shared(size_t bytes, size_t* offset) {
  const std::lock_guard lock(mutex_);
  if (const orError_t error = allocate_locked(bytes, kPage, offset)) return error;
  int file = -1;
  if (const orError_t error = make_file(blocks_.find(*offset)->second.bytes, &file)) {
    free_locked(*offset);
    return error;
  }
  const orError_t error = map_locked(*offset, file, file);
  if (error != orSuccess) close(file);
  return error;
}

size_t DeviceMemory::shared_bytes(size_t bytes) noexcept { return round_up(bytes, kPage); }

orError_t DeviceMemory::open_shared(size_t bytes, int file, size_t* offset) {
  const std::lock_guard lock(mutex_);
  if (const orError_t error = allocate_locked(bytes, kPage, offset)) return error;
  return map_locked(*offset, file, -1);
}

// Maps the file into the block at the offset, or frees the block.
orError_t DeviceMemory::map_locked(size_t offset, int file, int own_file) {
  Block& block = blocks_.find(offset)->second;
  if (const orError_t error = space_.share({device_, offset}, block.bytes, file)) {
    free_locked(offset);
    return error;
  }
  block.shared = true;
  block.file = own_file;
  return orSuccess;
}

// False if the host refuses. Then nobody may use the block again: another process would see the bytes.
bool DeviceMemory::unshare(Blocks::iterator block) const {
  if (!space_.unshare({device_, block->first}, block->second.bytes)) {
    block->second.retired = true;  // NOT PROVEN: needs a host that is out of mappings
    return false;                  // NOT PROVEN: as above
  }
  if (block->second.file >= 0) close(block->second.file);
  block->second.shared = false;
  block->second.file = -1;
  return true;
}

// Under the lock, since another thread may free the memory, and the file's number would then belong to another file.
orError_t DeviceMemory::export_shared(size_t offset, ExportedFile* exported) const {
  const std::lock_guard lock(mutex_);
  Blocks::const_iterator found;
  if (const orError_t error = find_start_locked(offset, &found)) return error;
  const Block& block = found->second;
  if (block.file < 0) {
    return fail(orErrorNotSupported,
                block.shared ? "openreg:%d + 0x%zx belongs to another process, which alone gives its handle away"
                             : "openreg:%d + 0x%zx belongs to this process alone; allocate it with orMallocShareable",
                device_, offset);
  }
  return export_file(ExportedKind::kMemory, device_, block.file, block.requested, exported);
}

orError_t DeviceMemory::free_opened(size_t offset) {
  const std::lock_guard lock(mutex_);
  Blocks::const_iterator found;
  if (const orError_t error = find_start_locked(offset, &found)) return error;
  if (!found->second.shared || found->second.file >= 0) {
    return fail(orErrorInvalidPointer, "openreg:%d + 0x%zx was not opened from a handle; free it with orFree", device_,
                offset);
  }
  free_locked(offset);
  return orSuccess;
}
// LITERALINCLUDE END: ipc-allocate

// Cuts a free block in two, of which the first has `bytes` bytes; `free` becomes the second.
orError_t DeviceMemory::split(FreeBlocks::iterator* free, size_t bytes) {
  const auto [whole, start] = **free;
  if (const orError_t error = add_free_block(start + bytes, whole - bytes)) return error;
  FreeBlocks::node_type entry = free_blocks_.extract(*free);
  entry.value().first = bytes;
  free_blocks_.insert(std::move(entry));
  blocks_.find(start)->second.bytes = bytes;
  *free = free_blocks_.find({whole - bytes, start + bytes});
  return orSuccess;
}

orError_t DeviceMemory::add_free_block(size_t start, size_t bytes) {
  try {
    const auto block = blocks_.emplace(start, Block{bytes, 0}).first;
    try {
      free_blocks_.emplace(bytes, start);
    } catch (const std::bad_alloc&) {
      blocks_.erase(block);
      throw;
    }
  } catch (const std::bad_alloc&) {
    return fail(orErrorMemoryAllocation, "the host has no memory for the record of an allocation on openreg:%d",
                device_);
  }
  return orSuccess;
}

// LITERALINCLUDE START: memory-commit
orError_t DeviceMemory::commit(size_t end) {
  if (end <= committed_) return orSuccess;
  const size_t wanted = std::min(round_up(end, AddressSpace::kSegment), capacity_);
  if (mprotect(space_.backing({device_, committed_}), wanted - committed_, PROT_READ | PROT_WRITE) != 0) {
    return fail(orErrorMemoryAllocation, "the host has no memory for another %zu bytes of openreg:%d (%s)",
                wanted - committed_, device_, std::strerror(errno));
  }
  committed_ = wanted;
  return orSuccess;
}
// LITERALINCLUDE END: memory-commit

// LITERALINCLUDE START: memory-join
// Frees the block, coalesces it with its free neighbors and returns the result. Allocates nothing, since a host that is
// out of memory must be able to free.
DeviceMemory::Blocks::iterator DeviceMemory::make_free(Blocks::iterator block) {
  FreeBlocks::node_type entry = std::move(block->second.entry);
  if (const auto next = std::next(block); next != blocks_.end() && next->second.requested == 0) {
    free_blocks_.erase({next->second.bytes, next->first});
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    if (const auto previous = std::prev(block); previous->second.requested == 0) {
      free_blocks_.erase({previous->second.bytes, previous->first});
      previous->second.bytes += block->second.bytes;
      blocks_.erase(block);
      block = previous;
    }
  }
  block->second.requested = 0;
  block->second.retired = false;
  entry.value() = {block->second.bytes, block->first};
  free_blocks_.insert(std::move(entry));
  return block;
}
// LITERALINCLUDE END: memory-join

// LITERALINCLUDE START: memory-give-back
// Only whole pages: a page at an edge also holds bytes of a neighbor.
void DeviceMemory::give_back_pages(size_t begin, size_t end) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t first = round_up(begin, page);
  const size_t last = end / page * page;
  // The host may refuse (locked memory, for example): then the pages stay, which costs memory only.
  if (first < last) (void)madvise(space_.backing({device_, first}), last - first, MADV_DONTNEED);
}
// LITERALINCLUDE END: memory-give-back

}  // namespace openreg::driver
