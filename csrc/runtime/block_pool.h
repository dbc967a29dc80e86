// A caching pool of device memory blocks, which avoids the driver's slow allocation and blocking free.
//
// Depends on the driver and not on PyTorch, so that it can be tested, also for data races, without PyTorch.
// allocator.cpp connects the two.
//
// A segment is one allocation of the driver; a block is a part of one. Adjacent free blocks of a segment are coalesced
// ("joined"): large ones at once, small ones not before a request finds no block. Until then a small block is kept for
// a request of its own size, and most come soon, since programs allocate the same sizes again and again.
//
// A block belongs to the stream that it was allocated on. Once freed, it is available to that stream at once, whose
// later work runs after everything queued so far, but not to any other stream, since nothing orders the two.
//
// Thread: any. One lock guards everything, and one for each device keeps releases of its segments apart. The first is
// never held while the driver allocates, frees or waits, except when there is no memory for the events that a freed
// block has to wait for.
//
// A host without memory loses no block: freeing and joining need no memory, and functions that allocate do so before
// they change anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/openreg.h"

namespace openreg {

// Which requests memory serves: those that name the same pool. The default is for all that name none; a captured graph
// has one of its own, since its replays use the memory after the tensors are gone.
using PoolId = std::pair<uint64_t, uint64_t>;

// LITERALINCLUDE START: pool-block
struct Block {
  char* address = nullptr;
  size_t bytes = 0;      // a multiple of 512
  size_t requested = 0;  // 0 when the block is free
  int device = 0;
  bool small = false;  // the segment is one for small blocks
  orStream_t stream = nullptr;
  PoolId pool{};
  Block* previous = nullptr;  // the adjacent blocks in the segment
  Block* next = nullptr;
  bool in_use = false;
  bool listed = false;                // in the set of free blocks: it can be split, and joined
  Block* next_unjoined = nullptr;     // the next in its list of unjoined blocks
  size_t unpassed = 0;                // events that must pass before a freed block is reused
  std::vector<orStream_t> used_by{};  // other streams that were recorded, each once

  bool is_split() const { return previous != nullptr || next != nullptr; }
};
// LITERALINCLUDE END: pool-block

// LITERALINCLUDE START: pool-statistics
// One statistic: its current value, its peak, and the accumulated increases and decreases.
struct Figure {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t increased = 0;
  int64_t decreased = 0;

  void increase(size_t amount);
  void decrease(size_t amount);
};

// A block is active from its allocation until it may be reused, which is later than its free if other streams were
// recorded. An inactive split block is a free part of a segment that is in use elsewhere.
struct BlockFigures {
  Figure allocations, segments, active, inactive_split;                        // counts
  Figure allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes;  // as rounded
  Figure requested_bytes;                                                      // as requested
};

struct PoolStatistics {
  BlockFigures all, small, large;
  int64_t retries = 0;        // allocations that emptied the cache
  int64_t out_of_memory = 0;  // allocations that still failed
  int64_t driver_allocations = 0;
  int64_t driver_frees = 0;

  void segment_came(const Block& segment);
  void segment_went(const Block& segment);
  void handed_out(const Block& block);
  void freed(const Block& block);
  void became_inactive(const Block& block);
  void inactive_split_came(const Block& block);
  void inactive_split_went(const Block& block);
};
// LITERALINCLUDE END: pool-statistics

// LITERALINCLUDE START: pool-observer
enum class PoolEvent {
  kAllocated,         // a block was handed out
  kFreeRequested,     // a block was freed
  kFreeCompleted,     // it can be used again: at once, or when the events of recorded streams have passed
  kSegmentAllocated,  // the driver allocated a segment
  kSegmentFreed,      // a segment is about to be returned to the driver
  kSnapshot,          // a snapshot is being taken; bytes is the device's active total
};

// Notified of each event in order, with the pool's lock held: it must return soon, must not throw, and must not call
// the pool, the driver or Python.
class PoolObserver {
 public:
  virtual void happened(PoolEvent event, const Block& block) noexcept = 0;

 protected:
  ~PoolObserver() = default;
};
// LITERALINCLUDE END: pool-observer

// The settings of PYTORCH_ALLOC_CONF that concern the pool, in bytes.
struct PoolSettings {
  size_t large_segment = size_t{20} << 20;
  size_t max_split = SIZE_MAX;                           // larger blocks are not split
  size_t max_non_split_rounding = size_t{20} << 20;      // nor used for much smaller requests

  using Read = PoolSettings (*)();
};

class BlockPool {
 public:
// LITERALINCLUDE START: pool-interface
  static constexpr size_t kUnit = 512;                    // every block is a multiple of it
  static constexpr size_t kSmallLimit = size_t{1} << 20;  // up to this size, blocks come from segments for small ones

  explicit BlockPool(int devices) : devices_(static_cast<size_t>(devices)) {}

  // Allocates a block of at least `bytes` bytes, which the caller has rounded, for the stream of the device. The
  // settings are read unless an unjoined block has exactly this size.
  // Returns: orErrorMemoryAllocation when there is no memory even after the cache was emptied; the driver's other
  // errors.
  orError_t allocate(void** address, int device, orStream_t stream, size_t bytes, size_t requested,
                     PoolSettings::Read settings, PoolId pool = {});

  struct Freed {
    bool found = false;  // false: the address was never handed out, or is already freed
    int device = 0;
    size_t requested = 0;
  };
  // Allocates only what it takes to remember the events of recorded streams, and waits for the streams if that fails.
  // Driver errors on those streams go to *error; the block is freed in any case.
  Freed free(void* address, orError_t* error);

  // Delays the reuse of the block until the work queued on the stream at the time of the free has finished.
  // Returns: false when the address does not lie in a block in use.
  bool record_stream(void* address, orStream_t stream);

  // Returns whole free segments to the driver, after waiting for the streams that still use their blocks. A segment
  // that the driver refuses to free stays in the cache.
  orError_t release_cached(int device);

  // Keeps the segments of a pool, on all devices and even those that are free, until release_pool was called as often.
  void retain_pool(PoolId pool);
  void release_pool(PoolId pool);
  // Returns the free segments of pools that are not retained to the driver. No other request can use them, and while a
  // graph is captured nothing can be released. Does nothing if a capture is under way.
  orError_t release_abandoned();
  // While work is captured, events that are recorded on its streams never pass, and cached memory is not released: a
  // block that was used on other streams is freed when the last capture has ended.
  void capture_began();
  orError_t capture_ended();

  // Limits the bytes that the pool may hold: an allocation beyond the limit is out of memory.
  void set_limit(int device, size_t bytes);
  size_t limit(int device) const;

  // The bytes of blocks in use and of all segments. Cheap enough to be read with every allocation.
  struct Held {
    int64_t allocated = 0;
    int64_t reserved = 0;
  };
  Held held(int device) const;

  // Both join free blocks first, and so show what a request of any size would find.
  PoolStatistics statistics(int device);
  std::vector<Block> snapshot(int device);  // copies of all blocks, sorted by address: neighbors are adjacent

  void reset_peaks(int device);
  void reset_sums(int device);

  // Null for none. It must outlive the pool.
  void set_observer(PoolObserver* observer);
  // A copy of the block in use at the address, or nothing.
  std::optional<Block> find(void* address) const;
  // LITERALINCLUDE END: pool-interface

 private:
  // LITERALINCLUDE START: pool-records
  // By pool, then stream, then size, then address: the first block that is large enough is the best fit of its stream.
  struct ByStreamAndSize {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeBlocks = std::set<Block*, ByStreamAndSize>;

  // Freed small blocks that are not joined yet, in lists by stream and size: the latest of each, which links to the
  // others. There are lists enough for the sizes that a program uses at a time. Two sizes that share a list only cost
  // time.
  struct Unjoined {
    std::array<Block*, 1024> latest{};
    size_t count = 0;

    Block*& list_of(const Block& block);
  };

  struct Pending {
    orEvent_t event;
    Block* block;
    uint64_t number;
  };

  struct PerDevice {
    FreeBlocks small;
    FreeBlocks large;
    Unjoined unjoined;
    std::map<orStream_t, std::deque<Pending>> pending;  // in the order of their records; no queue is empty
    uint64_t recorded = 0;  // the number of the last record
    size_t limit = SIZE_MAX;
    Block* deferred = nullptr;  // freed during a capture; linked by next_unjoined
    size_t being_allocated = 0;  // bytes requested from the driver and not yet received
    PoolStatistics statistics;
    // Held while segments return to the driver, and never taken under mutex_: they are neither in the cache nor free
    // for the driver, so whoever finds no memory waits for them, unless a capture is under way.
    std::mutex releasing;

    FreeBlocks& free_blocks(bool of_small) { return of_small ? small : large; }
  };

  // These require that mutex_ is held.
  Block* block_with(void* address);  // the block in which the address lies, or null
  Block* find_block(PerDevice& owner, const Block& wanted, PoolSettings::Read settings);
  Block* take_unjoined(PerDevice& owner, const Block& wanted);
  Block* take_free(PerDevice& owner, const Block& wanted, const PoolSettings& settings);
  void split_for(PerDevice& owner, Block* block, const Block& wanted, const PoolSettings& settings);
  bool split(PerDevice& owner, Block* block, size_t bytes);  // false when the host has no memory
  Block* add_block(const Block& block);  // null when the host has no memory
  void erase_block(const Block& block);
  // Returns false if there is no such block.
  bool hand_out_cached(PerDevice& owner, const Block& wanted, PoolSettings::Read settings, void** address);
  void hand_out(PerDevice& owner, Block* block, const Block& wanted);
  void make_free(PerDevice& owner, Block* block);
  bool join_all(PerDevice& owner);  // false when there was nothing to join
  void join(PerDevice& owner, Block* block);
  void insert_free(PerDevice& owner, Block* block);
  template <class Choose>
  void take_segments(PerDevice& owner, Choose choose, std::vector<Block>* segments);
  void remove_free(PerDevice& owner, FreeBlocks::iterator place);
  orError_t record_pending(PerDevice& owner, Block* block);
  bool remember(PerDevice& owner, orStream_t stream, Pending pending);  // false when the host has no memory
  orError_t collect_passed(PerDevice& owner);
  void notify(PoolEvent event, const Block& block) {
    if (observer_ != nullptr) observer_->happened(event, block);
  }
  PerDevice& of(int device) { return devices_[static_cast<size_t>(device)]; }

  // These lock it themselves.
  orError_t allocate_segment(const Block& wanted, size_t bytes, const PoolSettings& settings, void** address);
  orError_t wait_for_pending(int device);
  orError_t take_whole_segments(int device, std::vector<Block>* segments);
  bool has_private(PerDevice& owner);
  orError_t free_segments(const std::vector<Block>& segments);
  bool reserve(int device, size_t bytes);  // false when it would exceed the limit
  bool is_captured() const;

  mutable std::mutex mutex_;
  std::vector<PerDevice> devices_;
  PoolObserver* observer_ = nullptr;
  size_t captures_ = 0;  // under way, on any device
  std::map<PoolId, size_t> retained_;  // how often each pool was retained; no number is 0
  std::unordered_map<void*, Block> blocks_;  // all, by address; the elements of the map do not move
  std::vector<FreeBlocks::node_type> nodes_;  // one for each block in no set, which is inserted without an allocation
  // LITERALINCLUDE END: pool-records
};

}  // namespace openreg
