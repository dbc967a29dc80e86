// Blocks of device memory: allocation and free. Called on any thread, with or without the GIL, which nothing here
// takes.
#include "runtime/block_pool.h"
#include "runtime/driver_call.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <new>
#include <utility>

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

// LITERALINCLUDE START: pool-current-device
// Makes a device current for driver calls that depend on the current one, and restores the previous device.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : error_(orGetDevice(&previous_)) {
    if (error_ == orSuccess) error_ = orSetDevice(device);
  }
  ~CurrentDevice() {
    // Without an error, another device is current now. The previous one exists, and a destructor could not throw.
    if (error_ == orSuccess) error_ = orSetDevice(previous_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  orError_t error() const { return error_; }

 private:
  int previous_ = 0;
  orError_t error_;
};
// LITERALINCLUDE END: pool-current-device

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
  bool captured = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    PerDevice& owner = of(device);
    captured = captures_ > 0;
    if (const orError_t error = captured ? orSuccess : collect_passed(owner)) return error;
    if (Block* const block = find_block(owner, wanted, settings)) {
      hand_out(owner, block, wanted);
      *address = block->address;
      return orSuccess;
    }
  }
  const PoolSettings now = settings();
  const size_t whole = segment_bytes(bytes, now);
  orError_t error = allocate_segment(wanted, whole, now, address);
  if (error != orErrorMemoryAllocation) return error;
  if (!captured) {  // otherwise the driver would refuse to wait for the device, as a release of memory does
    if (const orError_t failure = release_cached(device)) return failure;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++of(device).statistics.retries;
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
    lock.unlock();                                                // NOT PROVEN: only when host memory
    error = orFree(pointer);                                      // NOT PROVEN: is exhausted, as in
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
  if (captures_ > 0 && !block->used_by.empty()) {
    block->unpassed = 1;
    block->next_unjoined = std::exchange(owner.deferred, block);
  } else {
    *error = record_pending(owner, block);
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

// LITERALINCLUDE START: pool-record-stream
namespace {

// Records an event behind the work queued on the stream, on the stream's device, which need not be the block's.
//
// Creates a new one each time: this driver takes it from a table. Where that is slow, keep events that have passed, as
// CUDA's allocator does, and drop them at a reset of the device, which destroys them.
orError_t record_new_event(orStream_t stream, orEvent_t* event) {
  int device = 0;
  if (const orError_t error = orStreamGetDevice(stream, &device)) return error;
  const CurrentDevice scope(device);
  orError_t error = scope.error();
  if (error == orSuccess) error = orEventCreateWithFlags(event, orEventDisableTiming);
  if (error != orSuccess) return error;
  error = orEventRecord(*event, stream);
  if (error != orSuccess) {
    // The first error is the one to report.
    [[maybe_unused]] const orError_t ignored = orEventDestroy(*event);  // NOT PROVEN: the stream was destroyed just now
  }
  return error;
}

}  // namespace

bool BlockPool::record_stream(void* address, orStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second.in_use) return false;
  Block& block = found->second;
  // The block's own stream needs no event: reuse of the block is ordered on that stream.
  if (stream != block.stream && std::ranges::find(block.used_by, stream) == block.used_by.end()) {
    block.used_by.push_back(stream);
  }
  return true;
}

orError_t BlockPool::record_pending(PerDevice& owner, Block* block) {
  orError_t first_error = orSuccess;
  for (orStream_t stream : std::exchange(block->used_by, {})) {
    orEvent_t event = nullptr;
    orError_t error = record_new_event(stream, &event);
    if (error == orSuccess && remember(owner, stream, {event, block})) {
      ++block->unpassed;
      continue;
    }
    // Without an event, or memory to keep it in, the only option is to wait. After any other error the stream or its
    // device is gone, and with it the work that could use the block.
    if (error == orSuccess || error == orErrorMemoryAllocation) error = orStreamSynchronize(stream);
    if (first_error == orSuccess) first_error = error;
  }
  return first_error;
}

bool BlockPool::remember(PerDevice& owner, orStream_t stream, Pending pending) {
  try {
    owner.pending[stream].push_back(pending);
    return true;
  } catch (const std::bad_alloc&) {  // NOT PROVEN: tests/stress/memory.cpp exhausts host memory
    [[maybe_unused]] const orError_t ignored = orEventDestroy(pending.event);  // NOT PROVEN: as above
    return false;  // NOT PROVEN: as above
  }
}

orError_t BlockPool::collect_passed(PerDevice& owner) {
  orError_t first_error = orSuccess;
  for (auto next = owner.pending.begin(); next != owner.pending.end();) {
    std::deque<Pending>& events = next->second;
    while (!events.empty()) {
      const orError_t state = orEventQuery(events.front().event);
      if (state == orErrorNotReady) break;
      // Any other answer ends the wait as well: a device that has failed runs nothing more.
      const Pending passed = events.front();
      events.pop_front();
      if (--passed.block->unpassed == 0) make_free(owner, passed.block);
      const orError_t error = state != orSuccess ? state : orEventDestroy(passed.event);
      if (first_error == orSuccess) first_error = error;
    }
    next = events.empty() ? owner.pending.erase(next) : std::next(next);
  }
  return first_error;
}
// LITERALINCLUDE END: pool-record-stream

// LITERALINCLUDE START: pool-release-cached
orError_t BlockPool::release_cached(int device) {
  std::vector<void*> segments;
  if (const orError_t error = wait_for_pending(device)) return error;
  if (const orError_t error = take_whole_segments(device, &segments)) return error;
  orError_t first_error = orSuccess;
  for (void* segment : segments) {
    const DriverCall call("orFree");
    const orError_t error = orFree(segment);
    if (first_error == orSuccess) first_error = error;
  }
  return first_error;
}

orError_t BlockPool::take_whole_segments(int device, std::vector<void*>* segments) {
  const std::lock_guard<std::mutex> lock(mutex_);
  PerDevice& owner = of(device);
  if (const orError_t error = captures_ > 0 ? orSuccess : collect_passed(owner)) return error;
  join_all(owner);
  segments->reserve(owner.small.size() + owner.large.size());  // now, since the loop below must not fail halfway
  for (FreeBlocks* blocks : {&owner.small, &owner.large}) {
    for (auto next = blocks->begin(); next != blocks->end();) {
      const auto place = next++;
      Block* const block = *place;
      if (block->is_split()) continue;  // the rest of its segment is in use
      if (owner.retained.contains(block->pool)) continue;
      remove_free(owner, place);
      owner.statistics.segment_went(*block);
      notify(PoolEvent::kSegmentFreed, *block);
      segments->push_back(block->address);
      erase_block(*block);
    }
  }
  return orSuccess;
}

orError_t BlockPool::wait_for_pending(int device) {
  std::vector<orStream_t> streams;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (captures_ > 0) return orSuccess;  // a stream may be captured; these blocks stay in the cache
    for (const auto& [stream, events] : of(device).pending) streams.push_back(stream);
  }
  for (orStream_t stream : streams) {
    if (const orError_t error = orStreamSynchronize(stream)) return error;
  }
  return orSuccess;
}
// LITERALINCLUDE END: pool-release-cached

// LITERALINCLUDE START: pool-private
void BlockPool::retain_pool(int device, PoolId pool) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++of(device).retained[pool];
}

void BlockPool::release_pool(int device, PoolId pool) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& retained = of(device).retained;
  const auto found = retained.find(pool);
  if (found != retained.end() && --found->second == 0) retained.erase(found);
}

void BlockPool::capture_began() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++captures_;
}

orError_t BlockPool::capture_ended() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--captures_ > 0) return orSuccess;
  orError_t first_error = orSuccess;
  for (PerDevice& owner : devices_) {
    Block* next = std::exchange(owner.deferred, nullptr);
    while (next != nullptr) {
      Block* const block = std::exchange(next, next->next_unjoined);
      block->unpassed = 0;
      const orError_t error = record_pending(owner, block);
      if (first_error == orSuccess) first_error = error;
      if (block->unpassed == 0) make_free(owner, block);
    }
  }
  return first_error;
}
// LITERALINCLUDE END: pool-private

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
