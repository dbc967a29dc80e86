// Best fit: the smallest gap that is large enough; a freed block is coalesced with its neighbors.
#include "arena.h"

#include <algorithm>
#include <iterator>

namespace openreg::driver::opencl {
namespace {

// The caching allocator asks rarely, and for blocks of megabytes. An allocation lies in one region: on a device with
// little memory they are smaller, so that one small block does not make a large part of it useless for large blocks.
constexpr size_t kRegion = size_t{256} << 20;
constexpr size_t kRegionsPerDevice = 8;  // at least

}  // namespace

// LITERALINCLUDE START: opencl-region
bool Arena::add_region(size_t bytes, bool may_drop) {
  if (bytes > total_ - reserved_ && may_drop) drop_empty_regions();
  if (bytes > total_ - reserved_) return false;
  const auto take = [&](size_t size) {
    void* const memory = clSVMAlloc(context_, CL_MEM_READ_WRITE, size + kAlignment, 0);
    if (memory == nullptr) return false;
    const auto start = (reinterpret_cast<uintptr_t>(memory) + kAlignment - 1) / kAlignment * kAlignment;
    regions_.emplace(start, Region{memory, size});
    reserved_ += size;
    ++version_;
    add_gap(start, size);
    return true;
  };
  // More than requested, so that the next allocations find room, or what the device has left.
  const size_t usual = std::min(kRegion, round_down(total_ / kRegionsPerDevice));
  const size_t wanted = std::max(bytes, std::min(usual, total_ - reserved_));
  if (take(wanted)) return true;
  if (may_drop) drop_empty_regions();
  return take(bytes);
}

void Arena::drop_empty_regions() {
  for (auto region = regions_.begin(); region != regions_.end();) {
    const auto gap = gaps_.find(region->first);
    if (gap == gaps_.end() || gap->second != region->second.bytes) {
      ++region;
      continue;
    }
    remove_gap(gap);
    reserved_ -= region->second.bytes;
    ++version_;
    if (!process_has_ended()) clSVMFree(context_, region->second.memory);
    region = regions_.erase(region);
  }
}
// LITERALINCLUDE END: opencl-region

// LITERALINCLUDE START: opencl-allocate
std::optional<uintptr_t> Arena::allocate(size_t bytes, bool may_drop) {
  const std::lock_guard lock(mutex_);
  if (bytes > total_) return std::nullopt;
  const size_t size = round_up(bytes);
  auto fit = gap_sizes_.lower_bound({size, 0});
  if (fit == gap_sizes_.end()) {
    if (process_is_ending() || !add_region(size, may_drop)) return std::nullopt;
    fit = gap_sizes_.lower_bound({size, 0});
  }
  const auto [room, start] = *fit;
  remove_gap(gaps_.find(start));
  if (room > size) add_gap(start + size, room - size);
  blocks_.emplace(start, bytes);
  used_ += size;
  return start;
}

void Arena::reclaim(const Block& retired) {
  const std::lock_guard lock(mutex_);
  if (retired.clears != clears_) return;
  uintptr_t start = retired.start;
  size_t bytes = round_up(retired.bytes);
  used_ -= bytes;
  // Two regions may happen to be adjacent; a gap never spans both.
  const auto region = region_of(start);
  const uintptr_t region_end = region->first + region->second.bytes;
  const auto after = gaps_.find(start + bytes);
  if (after != gaps_.end() && after->first < region_end) {
    bytes += after->second;
    remove_gap(after);
  }
  const auto next = gaps_.lower_bound(start);
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first >= region->first && before->first + before->second == start) {
      start = before->first;
      bytes += before->second;
      remove_gap(before);
    }
  }
  add_gap(start, bytes);
}

bool Arena::retire(const Block& block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block.start);
  if (block.clears != clears_ || found == blocks_.end() || found->second != block.bytes) return false;
  blocks_.erase(found);
  return true;
}

bool Arena::reuse(const Block& retired, size_t bytes) {
  const std::lock_guard lock(mutex_);
  return retired.clears == clears_ && blocks_.emplace(retired.start, bytes).second;
}

bool Arena::release(const Block& block) {
  if (!retire(block)) return false;
  reclaim(block);
  return true;
}
// LITERALINCLUDE END: opencl-allocate

Arena::Place Arena::find(uintptr_t address, Block* block) const {
  const std::lock_guard lock(mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after != blocks_.begin()) {
    const auto& [start, bytes] = *std::prev(after);
    if (address - start < bytes) {
      *block = Block{start, bytes, clears_};
      return Place::kAllocated;
    }
  }
  return region_of(address) != regions_.end() ? Place::kFree : Place::kElsewhere;
}

void Arena::clear() {
  const std::lock_guard lock(mutex_);
  ++clears_;
  blocks_.clear();
  gaps_.clear();
  gap_sizes_.clear();
  used_ = 0;
  for (const auto& [start, region] : regions_) add_gap(start, region.bytes);
}

size_t Arena::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return total_ - used_;
}

std::vector<void*> Arena::regions(uint64_t* version) const {
  const std::lock_guard lock(mutex_);
  std::vector<void*> found;
  for (const auto& [start, region] : regions_) found.push_back(region.memory);
  *version = version_;
  return found;
}

size_t Arena::bytes_in_region(uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  const auto region = region_of(address);
  return region != regions_.end() ? region->first + region->second.bytes - address : 0;
}

Arena::Regions::const_iterator Arena::region_of(uintptr_t address) const {
  const auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return regions_.end();
  const auto region = std::prev(after);
  return address - region->first < region->second.bytes ? region : regions_.end();
}

void Arena::add_gap(uintptr_t start, size_t bytes) {
  gaps_.emplace(start, bytes);
  gap_sizes_.emplace(bytes, start);
}

void Arena::remove_gap(std::map<uintptr_t, size_t>::iterator gap) {
  gap_sizes_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

}  // namespace openreg::driver::opencl
