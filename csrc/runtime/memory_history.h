// The history of device memory: what was allocated and freed, when, and by which line of the program. PyTorch's memory
// viewer shows it. allocator.cpp gathers the stacks and requests copies; the pool reports the events.
//
// Thread: any.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/block_pool.h"

namespace openreg {

// LITERALINCLUDE START: history-settings
struct HistorySettings {
  // Returns the stack of the calling thread. It may take the GIL.
  c10::CachingDeviceAllocator::CreateContextFn gather = nullptr;
  // Which stacks are kept: those of memory in use (STATE), of all allocations (ALLOC), of frees as well (ALL), or none.
  c10::CachingDeviceAllocator::RecordContext stacks = c10::CachingDeviceAllocator::RecordContext::NEVER;
  size_t max_entries = 0;  // per device; the latest are kept
  bool clear = false;  // discard earlier entries
  uint32_t skipped = 0;  // a bit for each TraceEntry::Action whose entries are not kept
};
// LITERALINCLUDE END: history-settings

using Stack = std::shared_ptr<c10::GatheredContext>;

// LITERALINCLUDE START: history-copy
// A copy of the history of one device.
struct HistoryCopy {
  std::vector<c10::CachingDeviceAllocator::TraceEntry> entries;  // the oldest first; times are approximate
  std::unordered_map<const void*, Stack> blocks;  // by address: where each block in use was allocated
  std::unordered_map<const void*, Stack> segments;  // by address: which allocation needed the segment
};
// LITERALINCLUDE END: history-copy

// LITERALINCLUDE START: history-interface
class MemoryHistory final : public PoolObserver {
 public:
  explicit MemoryHistory(int devices) : devices_(static_cast<size_t>(devices)) {}

  // Starts recording, or continues with other settings.
  void record(const HistorySettings& settings);
  // Stops recording, and discards everything.
  void stop();

  void happened(PoolEvent event, const Block& block) noexcept override;
  // The driver had no memory left: `available` bytes are free, and `requested` were needed.
  void out_of_memory(int device, size_t available, size_t requested) noexcept;

  // Gathers the stack for the calling thread's use of the pool during the lifetime of the object, if stacks of this
  // level are kept. Requires: the pool's lock is not held, since gathering may take the GIL.
  class StackScope {
   public:
    StackScope(const MemoryHistory& history, c10::CachingDeviceAllocator::RecordContext level) {
      const bool of_all = level == c10::CachingDeviceAllocator::RecordContext::ALL;
      const auto& gather = of_all ? history.gather_for_all_ : history.gather_for_state_;
      if (const auto gather_now = gather.load(std::memory_order_relaxed); C10_UNLIKELY(gather_now != nullptr)) {
        begin(gather_now);
      }
    }
    ~StackScope() {
      if (C10_UNLIKELY(stack_ != nullptr)) end();
    }
    StackScope(const StackScope&) = delete;
    StackScope& operator=(const StackScope&) = delete;

   private:
    void begin(c10::CachingDeviceAllocator::CreateContextFn gather);
    void end();

    Stack stack_;
    const Stack* outer_ = nullptr;  // that of the scope around this one
  };

  // During its lifetime, a pool snapshot that the calling thread takes also copies the history, at the same moment.
  class CopyScope {
   public:
    explicit CopyScope(HistoryCopy* copy);
    ~CopyScope();
    CopyScope(const CopyScope&) = delete;
    CopyScope& operator=(const CopyScope&) = delete;
  };
  // LITERALINCLUDE END: history-interface

 private:
  using TraceEntry = c10::CachingDeviceAllocator::TraceEntry;

  // LITERALINCLUDE START: history-records
  struct InUse {
    size_t requested;
    Stack stack;
  };

  struct PerDevice {
    std::vector<TraceEntry> entries;  // a ring once it is full
    size_t next = 0;  // the oldest entry, which the next one then replaces
    std::unordered_map<const void*, InUse> blocks;
    std::unordered_map<const void*, Stack> segments;
  };

  // These require that mutex_ is held.
  void add(PerDevice& of, TraceEntry::Action action, const Block& block, size_t bytes);
  void follow(PerDevice& of, PoolEvent event, const Block& block);
  void copy_to(HistoryCopy* copy, const PerDevice& of) const;
  static std::vector<TraceEntry> in_order(const PerDevice& of);

  mutable std::mutex mutex_;  // taken with the pool's lock held: no other lock may be taken under it
  HistorySettings settings_;
  std::vector<PerDevice> devices_;
  // Read without the lock at every allocation: null while no stacks of the level are kept.
  std::atomic<c10::CachingDeviceAllocator::CreateContextFn> gather_for_state_{nullptr};
  std::atomic<c10::CachingDeviceAllocator::CreateContextFn> gather_for_all_{nullptr};
  // LITERALINCLUDE END: history-records
};

}  // namespace openreg
