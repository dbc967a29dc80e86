// What the pool counts, and what it shows of its blocks.
#include <algorithm>
#include <cstdlib>

#include "runtime/block_pool.h"

namespace openreg {

// LITERALINCLUDE START: pool-figures
void Figure::change(int64_t amount) {
  current += amount;
  peak = std::max(peak, current);
  (amount > 0 ? increased : decreased) += std::abs(amount);
}

void PoolStatistics::change(const Block& block, int64_t count, Figure BlockFigures::* counted,
                            Figure BlockFigures::* bytes) {
  for (BlockFigures* figures : {&all, block.small ? &small : &large}) {
    (figures->*counted).change(count);
    (figures->*bytes).change(count * static_cast<int64_t>(block.bytes));
  }
}

void PoolStatistics::request(const Block& block, int64_t count) {
  for (BlockFigures* figures : {&all, block.small ? &small : &large}) {
    figures->requested_bytes.change(count * static_cast<int64_t>(block.requested));
  }
}
// LITERALINCLUDE END: pool-figures

// LITERALINCLUDE START: pool-what-changes
void PoolStatistics::segment_came(const Block& segment) {
  ++driver_allocations;
  change(segment, 1, &BlockFigures::segments, &BlockFigures::reserved_bytes);
}

void PoolStatistics::segment_went(const Block& segment) {
  ++driver_frees;
  change(segment, -1, &BlockFigures::segments, &BlockFigures::reserved_bytes);
}

void PoolStatistics::handed_out(const Block& block) {
  change(block, 1, &BlockFigures::allocations, &BlockFigures::allocated_bytes);
  change(block, 1, &BlockFigures::active, &BlockFigures::active_bytes);
  request(block, 1);
}

void PoolStatistics::freed(const Block& block) {
  change(block, -1, &BlockFigures::allocations, &BlockFigures::allocated_bytes);
  request(block, -1);
}

void PoolStatistics::became_inactive(const Block& block) {
  change(block, -1, &BlockFigures::active, &BlockFigures::active_bytes);
}

void PoolStatistics::inactive_split(const Block& block, int64_t count) {
  change(block, count, &BlockFigures::inactive_split, &BlockFigures::inactive_split_bytes);
}
// LITERALINCLUDE END: pool-what-changes

namespace {

template <class Change>
void for_each_figure(PoolStatistics& statistics, Change change) {
  for (BlockFigures* of : {&statistics.all, &statistics.small, &statistics.large}) {
    for (Figure* figure : {&of->allocations, &of->segments, &of->active, &of->inactive_split, &of->allocated_bytes,
                           &of->reserved_bytes, &of->active_bytes, &of->inactive_split_bytes, &of->requested_bytes}) {
      change(*figure);
    }
  }
}

}  // namespace

PoolStatistics BlockPool::statistics(int device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return devices_[static_cast<size_t>(device)].statistics;
}

void BlockPool::reset_peaks(int device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for_each_figure(of(device).statistics, [](Figure& figure) { figure.peak = figure.current; });
}

void BlockPool::reset_sums(int device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  PoolStatistics& statistics = of(device).statistics;
  for_each_figure(statistics, [](Figure& figure) { figure.increased = figure.decreased = 0; });
  statistics.retries = statistics.out_of_memory = 0;
  statistics.driver_allocations = statistics.driver_frees = 0;
}

// LITERALINCLUDE START: pool-snapshot
std::vector<Block> BlockPool::snapshot(int device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Block> copies;
  for (const auto& [address, block] : blocks_) {
    if (block.device == device) copies.push_back(block);
  }
  std::sort(copies.begin(), copies.end(), [](const Block& a, const Block& b) { return a.address < b.address; });
  return copies;
}
// LITERALINCLUDE END: pool-snapshot

}  // namespace openreg
