// Freed blocks of device memory: they are joined with their neighbors, and whole segments return to the driver. Called
// on any thread, with or without the GIL, which nothing here takes.
#include "runtime/block_pool.h"
#include "runtime/driver_call.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace openreg {

// LITERALINCLUDE START: pool-free
BlockPool::Freed BlockPool::free(void* address, orError_t* error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second.in_use) return {};
  Block* const block = &found->second;
  PerDevice& owner = of(block->device);
  const Freed freed{true, block->device, block->requested};
  owner.statistics.freed(*block);
  notify(PoolEvent::kFreeRequested, *block);
  block->in_use = false;
  block->requested = 0;
  if (!block->used_by.empty()) {
    if (captures_ > 0) {
      block->unpassed = 1;
      block->next_unjoined = std::exchange(owner.deferred, block);
    } else {
      *error = record_pending(owner, block);
    }
  }
  if (block->unpassed == 0) make_free(owner, block);
  return freed;
}

void BlockPool::make_free(PerDevice& owner, Block* block) {
  owner.statistics.became_inactive(*block);
  notify(PoolEvent::kFreeCompleted, *block);
  if (block->small) {
    block->next_unjoined = std::exchange(owner.unjoined.list_of(*block), block);
    ++owner.unjoined.count;
  } else {
    join(owner, block);
  }
}

void BlockPool::join(PerDevice& owner, Block* block) {
  const auto is_free = [](const Block* other) { return other != nullptr && other->listed; };
  const auto absorb_next = [this](Block* left) {
    Block* const right = left->next;
    left->bytes += right->bytes;
    left->next = right->next;
    if (left->next != nullptr) left->next->previous = left;
    erase_block(*right);
  };
  FreeBlocks& blocks = owner.free_blocks(block->small);
  if (is_free(block->next)) {
    remove_free(owner, blocks.find(block->next));
    absorb_next(block);
  }
  if (is_free(block->previous)) {
    block = block->previous;
    remove_free(owner, blocks.find(block));
    absorb_next(block);
  }
  insert_free(owner, block);
}

void BlockPool::insert_free(PerDevice& owner, Block* block) {
  block->listed = true;
  nodes_.back().value() = block;
  owner.free_blocks(block->small).insert(std::move(nodes_.back()));
  nodes_.pop_back();
  if (block->is_split()) owner.statistics.inactive_split_came(*block);
}

void BlockPool::remove_free(PerDevice& owner, FreeBlocks::iterator place) {
  Block* const block = *place;
  if (block->is_split()) owner.statistics.inactive_split_went(*block);
  block->listed = false;
  nodes_.push_back(owner.free_blocks(block->small).extract(place));
}
// LITERALINCLUDE END: pool-free

// LITERALINCLUDE START: pool-unjoined
Block*& BlockPool::Unjoined::list_of(const Block& block) {
  // The multiplier spreads handles, which differ in few bits, over all lists.
  const uint64_t of_stream = reinterpret_cast<uintptr_t>(block.stream) * 0x9e3779b97f4a7c15 >> 32;
  return latest[(of_stream + block.pool.first + block.bytes / kUnit) % latest.size()];
}

Block* BlockPool::take_unjoined(PerDevice& owner, const Block& wanted) {
  if (!wanted.small) return nullptr;
  Block*& latest = owner.unjoined.list_of(wanted);
  if (latest == nullptr || latest->stream != wanted.stream || latest->bytes != wanted.bytes ||
      latest->pool != wanted.pool) {
    return nullptr;
  }
  --owner.unjoined.count;
  return std::exchange(latest, latest->next_unjoined);
}

bool BlockPool::join_all(PerDevice& owner) {
  if (owner.unjoined.count == 0) return false;
  const Unjoined unjoined = std::exchange(owner.unjoined, {});
  for (Block* next : unjoined.latest) {
    while (next != nullptr) join(owner, std::exchange(next, next->next_unjoined));
  }
  return true;
}
// LITERALINCLUDE END: pool-unjoined

// LITERALINCLUDE START: pool-release-cached
orError_t BlockPool::release_cached(int device) {
  const std::lock_guard<std::mutex> releasing(of(device).releasing);
  std::vector<Block> segments;
  if (const orError_t error = wait_for_pending(device)) return error;
  if (const orError_t error = take_whole_segments(device, &segments)) return error;
  return free_segments(segments);
}

// The driver may refuse: another thread's capture has begun meanwhile, or the device has failed.
orError_t BlockPool::free_segments(const std::vector<Block>& segments) {
  orError_t first_error = orSuccess;
  for (const Block& segment : segments) {
    const DriverCall call("orFree");
    const orError_t error = orFree(segment.address);
    if (first_error == orSuccess) first_error = error;
    const std::lock_guard<std::mutex> lock(mutex_);
    PerDevice& owner = of(segment.device);
    if (error == orSuccess) {
      owner.statistics.segment_went(segment);
    } else if (Block* const kept = add_block(segment)) {
      notify(PoolEvent::kSegmentAllocated, *kept);
      insert_free(owner, kept);
    }
  }
  return first_error;
}

orError_t BlockPool::take_whole_segments(int device, std::vector<Block>* segments) {
  const std::lock_guard<std::mutex> lock(mutex_);
  PerDevice& owner = of(device);
  if (const orError_t error = captures_ > 0 ? orSuccess : collect_passed(owner)) return error;
  join_all(owner);
  take_segments(owner, [](const Block&) { return true; }, segments);
  return orSuccess;
}

template <class Choose>
void BlockPool::take_segments(PerDevice& owner, Choose choose, std::vector<Block>* segments) {
  segments->reserve(owner.small.size() + owner.large.size());  // now, since the loop below must not fail halfway
  for (FreeBlocks* blocks : {&owner.small, &owner.large}) {
    for (auto next = blocks->begin(); next != blocks->end();) {
      const auto place = next++;
      Block* const block = *place;
      if (block->is_split()) continue;  // the rest of its segment is in use
      if (retained_.contains(block->pool) || !choose(*block)) continue;
      remove_free(owner, place);
      notify(PoolEvent::kSegmentFreed, *block);
      segments->push_back(*block);
      erase_block(*block);
    }
  }
}

// Asks the events, under the lock, and waits for no stream: while it waited for one, another thread could destroy the
// next, or begin to capture it, and a wait would end that capture.
orError_t BlockPool::wait_for_pending(int device) {
  using std::chrono::microseconds;
  constexpr microseconds kLongest(1000);
  std::optional<uint64_t> last;  // Another thread may free more and more.
  for (microseconds pause(20);; pause = std::min(2 * pause, kLongest)) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (captures_ > 0) return orSuccess;  // a stream may be captured; these blocks stay in the cache
      PerDevice& owner = of(device);
      if (const orError_t error = collect_passed(owner)) return error;
      if (!last) last = owner.recorded;
      const auto is_over = [&last](const auto& entry) { return entry.second.front().number > *last; };
      if (std::ranges::all_of(owner.pending, is_over)) return orSuccess;
    }
    std::this_thread::sleep_for(pause);
  }
}
// LITERALINCLUDE END: pool-release-cached

// LITERALINCLUDE START: pool-abandoned
orError_t BlockPool::release_abandoned() {
  orError_t first_error = orSuccess;
  for (PerDevice& owner : devices_) {
    if (!has_private(owner)) continue;  // so that a capture does not wait for another thread's release
    const std::lock_guard<std::mutex> releasing(owner.releasing);
    std::vector<Block> segments;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const bool may_release = captures_ == 0;  // otherwise the driver would refuse
      if (may_release) take_segments(owner, [](const Block& block) { return block.pool != PoolId(); }, &segments);
    }
    const orError_t error = free_segments(segments);
    if (first_error == orSuccess) first_error = error;
  }
  return first_error;
}

// Whether a free block is one of a private pool. They are sorted by pool, and the default is the first.
bool BlockPool::has_private(PerDevice& owner) {
  const std::lock_guard<std::mutex> lock(mutex_);
  join_all(owner);
  return std::ranges::any_of(std::array{&owner.small, &owner.large}, [](const FreeBlocks* blocks) {
    return !blocks->empty() && (*blocks->rbegin())->pool != PoolId();
  });
}
// LITERALINCLUDE END: pool-abandoned

}  // namespace openreg
