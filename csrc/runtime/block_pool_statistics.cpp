// The statistics of the pool, and its snapshots.
#include <algorithm>

#include "runtime/block_pool.h"

namespace openreg {

// LITERALINCLUDE START: pool-figures
void Figure::increase(size_t amount) {
  current += static_cast<int64_t>(amount);
  increased += static_cast<int64_t>(amount);
  peak = std::max(peak, current);
}

void Figure::decrease(size_t amount) {
  current -= static_cast<int64_t>(amount);
  decreased += static_cast<int64_t>(amount);
}

namespace {

template <class Change>
void change(PoolStatistics& statistics, const Block& block, Change change_figures) {
  change_figures(statistics.all);
  change_figures(block.small ? statistics.small : statistics.large);
}

}  // namespace
// LITERALINCLUDE END: pool-figures

// LITERALINCLUDE START: pool-what-changes
void PoolStatistics::segment_came(const Block& segment) {
  ++driver_allocations;
  change(*this, segment, [&](BlockFigures& figures) {
    figures.segments.increase(1);
    figures.reserved_bytes.increase(segment.bytes);
  });
}

void PoolStatistics::segment_went(const Block& segment) {
  ++driver_frees;
  change(*this, segment, [&](BlockFigures& figures) {
    figures.segments.decrease(1);
    figures.reserved_bytes.decrease(segment.bytes);
  });
}

void PoolStatistics::handed_out(const Block& block) {
  change(*this, block, [&](BlockFigures& figures) {
    figures.allocations.increase(1);
    figures.allocated_bytes.increase(block.bytes);
    figures.requested_bytes.increase(block.requested);
    figures.active.increase(1);
    figures.active_bytes.increase(block.bytes);
  });
}

void PoolStatistics::freed(const Block& block) {
  change(*this, block, [&](BlockFigures& figures) {
    figures.allocations.decrease(1);
    figures.allocated_bytes.decrease(block.bytes);
    figures.requested_bytes.decrease(block.requested);
  });
}

void PoolStatistics::became_inactive(const Block& block) {
  change(*this, block, [&](BlockFigures& figures) {
    figures.active.decrease(1);
    figures.active_bytes.decrease(block.bytes);
  });
}

void PoolStatistics::inactive_split_came(const Block& block) {
  change(*this, block, [&](BlockFigures& figures) {
    figures.inactive_split.increase(1);
    figures.inactive_split_bytes.increase(block.bytes);
  });
}

void PoolStatistics::inactive_split_went(const Block& block) {
  change(*this, block, [&](BlockFigures& figures) {
    figures.inactive_split.decrease(1);
    figures.inactive_split_bytes.decrease(block.bytes);
  });
}
// LITERALINCLUDE END: pool-what-changes

namespace {

template <class Change>
void for_each_figure(PoolStatistics& statistics, Change change_figure) {
  for (BlockFigures* of : {&statistics.all, &statistics.small, &statistics.large}) {
    for (Figure* figure : {&of->allocations, &of->segments, &of->active, &of->inactive_split, &of->allocated_bytes,
                           &of->reserved_bytes, &of->active_bytes, &of->inactive_split_bytes, &of->requested_bytes}) {
      change_figure(*figure);
    }
  }
}

}  // namespace

BlockPool::Held BlockPool::held(int device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const BlockFigures& figures = devices_[static_cast<size_t>(device)].statistics.all;
  return {figures.allocated_bytes.current, figures.reserved_bytes.current};
}

PoolStatistics BlockPool::statistics(int device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  join_all(of(device));
  return of(device).statistics;
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
std::vector<Block> BlockPool::snapshot(int device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  join_all(of(device));
  Block mark;
  mark.device = device;
  mark.bytes = static_cast<size_t>(of(device).statistics.all.active_bytes.current);
  notify(PoolEvent::kSnapshot, mark);
  std::vector<Block> copies;
  for (const auto& [address, block] : blocks_) {
    if (block.device == device) copies.push_back(block);
  }
  std::sort(copies.begin(), copies.end(), [](const Block& a, const Block& b) { return a.address < b.address; });
  return copies;
}
// LITERALINCLUDE END: pool-snapshot

// LITERALINCLUDE START: pool-attach
void BlockPool::set_observer(PoolObserver* observer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  observer_ = observer;
}

std::optional<Block> BlockPool::find(void* address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(address);
  return found == blocks_.end() || !found->second.in_use ? std::nullopt : std::optional(found->second);
}
// LITERALINCLUDE END: pool-attach

}  // namespace openreg
