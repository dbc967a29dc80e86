// Allocation of blocks of device memory. Called on any thread, with or without the GIL, which nothing here takes.
#include "runtime/block_pool.h"
#include "runtime/current_device.h"
#include "runtime/driver_call.h"

#include <algorithm>
#include <functional>
#include <new>

namespace openreg {
namespace {

// LITERALINCLUDE START: pool-sizes
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kOwnSegmentFrom = size_t{10} << 20;  // from here a block gets a segment of its own
constexpr size_t kOwnSegmentUnit = size_t{2} << 20;

size_t segment_bytes(size_t bytes, const PoolSettings& settings) {
  if (bytes <= BlockPool::kSmallLimit) return kSmallSegment;
  if (bytes < std::min(kOwnSegmentFrom, settings.large_segment)) return settings.large_segment;
  return (bytes + kOwnSegmentUnit - 1) / kOwnSegmentUnit * kOwnSegmentUnit;
}
// LITERALINCLUDE END: pool-sizes

}  // namespace

bool BlockPool::ByStreamAndSize::operator()(const Block* a, const Block* b) const {
  if (a->pool != b->pool) return a->pool < b->pool;
  if (a->stream != b->stream) return std::less<>()(a->stream, b->stream);
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return std::less<>()(a->address, b->address);
}

// LITERALINCLUDE START: pool-allocate
orError_t BlockPool::allocate(void** address, int device, orStream_t stream, size_t bytes, size_t requested,
                              PoolSettings::Read settings, PoolId pool) {
  Block wanted;
  wanted.bytes = bytes;
  wanted.requested = requested;
  wanted.device = device;
  wanted.small = bytes <= kSmallLimit;
  wanted.stream = stream;
  wanted.pool = pool;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    PerDevice& owner = of(device);
    if (const orError_t error = captures_ > 0 ? orSuccess : collect_passed(owner)) return error;
    if (hand_out_cached(owner, wanted, settings, address)) return orSuccess;
  }
  const PoolSettings now = settings();
  const size_t whole = segment_bytes(bytes, now);
  orError_t error = allocate_segment(wanted, whole, now, address);
  if (error != orErrorMemoryAllocation) return error;
  if (!is_captured()) {  // otherwise the driver would refuse to wait for the device, as a release of memory does
    // The driver also refuses if another thread's capture has just begun: what was to be freed is in the cache again.
    const orError_t failure = release_cached(device);
    if (failure != orSuccess && failure != orErrorStreamCaptureUnsupported) return failure;
    if (failure != orSuccess) (void)orGetLastError();  // this error is answered here
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      PerDevice& owner = of(device);
      ++owner.statistics.retries;
      // The wait for recorded streams may have freed a part of a segment whose rest is in use.
      if (hand_out_cached(owner, wanted, settings, address)) return orSuccess;
    }
    error = allocate_segment(wanted, whole, now, address);
  }
  // The segment is larger than the block, and the device may still have room for the block alone.
  if (error == orErrorMemoryAllocation && bytes < whole) error = allocate_segment(wanted, bytes, now, address);
  if (error == orErrorMemoryAllocation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++of(device).statistics.out_of_memory;
  }
  return error;
}
// LITERALINCLUDE END: pool-allocate

// LITERALINCLUDE START: pool-take-free
Block* BlockPool::find_block(PerDevice& owner, const Block& wanted, PoolSettings::Read settings) {
  if (Block* const block = take_unjoined(owner, wanted)) return block;
  const PoolSettings now = settings();
  Block* block = take_free(owner, wanted, now);
  if (block == nullptr && join_all(owner)) block = take_free(owner, wanted, now);
  if (block != nullptr) split_for(owner, block, wanted, now);
  return block;
}

Block* BlockPool::take_free(PerDevice& owner, const Block& wanted, const PoolSettings& settings) {
  FreeBlocks& blocks = owner.free_blocks(wanted.small);
  Block smallest = wanted;  // a null address, which sorts before all blocks of this size
  const auto found = blocks.lower_bound(&smallest);
  if (found == blocks.end() || (*found)->stream != wanted.stream || (*found)->pool != wanted.pool) return nullptr;
  Block* const block = *found;
  // A block above the limit cannot be split: it serves requests of about its size.
  if (block->bytes > settings.max_split) {
    if (wanted.bytes <= settings.max_split) return nullptr;
    if (block->bytes >= wanted.bytes + settings.max_non_split_rounding) return nullptr;
  }
  remove_free(owner, found);
  return block;
}

void BlockPool::split_for(PerDevice& owner, Block* block, const Block& wanted, const PoolSettings& settings) {
  const size_t rest = block->bytes - wanted.bytes;
  // A small remainder of a large block is useless: small requests use other segments.
  if (block->small ? rest >= kUnit : rest > kSmallLimit && block->bytes <= settings.max_split) {
    // If the host has no memory for the split, the block is handed out whole.
    static_cast<void>(split(owner, block, wanted.bytes));
  }
}

bool BlockPool::hand_out_cached(PerDevice& owner, const Block& wanted, PoolSettings::Read settings, void** address) {
  Block* const block = find_block(owner, wanted, settings);
  if (block == nullptr) return false;
  hand_out(owner, block, wanted);
  *address = block->address;
  return true;
}

void BlockPool::hand_out(PerDevice& owner, Block* block, const Block& wanted) {
  block->in_use = true;
  block->requested = wanted.requested;
  owner.statistics.handed_out(*block);
  notify(PoolEvent::kAllocated, *block);
}

bool BlockPool::split(PerDevice& owner, Block* block, size_t bytes) {
  Block right = *block;
  right.address += bytes;
  right.bytes -= bytes;
  right.requested = 0;
  right.previous = block;
  Block* const rest = add_block(right);
  if (rest == nullptr) return false;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->bytes = bytes;
  insert_free(owner, rest);
  return true;
}
// LITERALINCLUDE END: pool-take-free

// LITERALINCLUDE START: pool-add-block
// Allocates everything that the block needs until it is erased, or nothing.
Block* BlockPool::add_block(const Block& block) {
  try {
    if (nodes_.capacity() <= blocks_.size()) nodes_.reserve(2 * blocks_.size() + 64);
    FreeBlocks maker;
    maker.insert(nullptr);
    Block* const added = &blocks_.emplace(block.address, block).first->second;
    nodes_.push_back(maker.extract(maker.begin()));
    return added;
  } catch (const std::bad_alloc&) {
    return nullptr;  // NOT PROVEN: tests/stress/memory.cpp exhausts host memory
  }
}

void BlockPool::erase_block(const Block& block) {
  blocks_.erase(block.address);
  nodes_.pop_back();
}
// LITERALINCLUDE END: pool-add-block

// LITERALINCLUDE START: pool-segment
bool BlockPool::is_captured() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return captures_ > 0;
}

bool BlockPool::reserve(int device, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  PerDevice& owner = of(device);
  const auto reserved = static_cast<size_t>(owner.statistics.all.reserved_bytes.current) + owner.being_allocated;
  if (reserved > owner.limit || bytes > owner.limit - reserved) return false;
  owner.being_allocated += bytes;
  return true;
}

orError_t BlockPool::allocate_segment(const Block& wanted, size_t bytes, const PoolSettings& settings, void** address) {
  if (!reserve(wanted.device, bytes)) return orErrorMemoryAllocation;
  void* pointer = nullptr;
  const CurrentDevice scope(wanted.device);
  orError_t error = scope.error();
  if (error == orSuccess) {
    const DriverCall call("orMalloc");
    error = orMalloc(&pointer, bytes);
  }

  std::unique_lock<std::mutex> lock(mutex_);
  PerDevice& owner = of(wanted.device);
  owner.being_allocated -= bytes;
  if (error != orSuccess) return error;
  Block whole = wanted;
  whole.address = static_cast<char*>(pointer);
  whole.bytes = bytes;
  Block* const segment = add_block(whole);
  if (segment == nullptr) {
    lock.unlock();  // NOT PROVEN: only when host memory
    error = orFree(pointer);  // NOT PROVEN: is exhausted, as in
    return error != orSuccess ? error : orErrorMemoryAllocation;  // NOT PROVEN: tests/stress/memory.cpp
  }
  owner.statistics.segment_came(*segment);
  notify(PoolEvent::kSegmentAllocated, *segment);
  split_for(owner, segment, wanted, settings);
  hand_out(owner, segment, wanted);
  *address = pointer;
  return orSuccess;
}
// LITERALINCLUDE END: pool-segment

// LITERALINCLUDE START: pool-limit
void BlockPool::set_limit(int device, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  of(device).limit = bytes;
}

size_t BlockPool::limit(int device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return devices_[static_cast<size_t>(device)].limit;
}
// LITERALINCLUDE END: pool-limit

}  // namespace openreg
