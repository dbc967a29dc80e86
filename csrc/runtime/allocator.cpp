// Device memory: PyTorch's allocator interface, over the pool of cached blocks.
//
// Called on any thread, with or without the GIL: see Note [Threads and the GIL]. No lock is held while PyTorch's memory
// profiler is called.
#include "runtime/allocator.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/memory_history.h"
#include "runtime/stream.h"
#include "runtime/trace.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::RecordContext;

// Never destroyed: tensors may outlive static destruction.
BlockPool& block_pool() {
  static auto* const instance = new BlockPool(device_count());
  return *instance;
}

// Never destroyed, as above.
MemoryHistory& memory_history() {
  static auto* const instance = new MemoryHistory(device_count());
  return *instance;
}

// LITERALINCLUDE START: allocator-settings
// The variable of another device that these settings are from, or null. PyTorch prefers such a variable to
// PYTORCH_ALLOC_CONF, whatever the device.
const char* variable_of_others(const std::string& settings) {
  for (const char* const name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}) {
    const char* const given = std::getenv(name);
    if (given != nullptr) return settings == given ? name : nullptr;
  }
  return nullptr;
}

// Read whenever the pool splits a block or asks for a segment: a program may change them while it runs.
PoolSettings settings() {
  if (AcceleratorAllocatorConfig::use_expandable_segments() ||
      AcceleratorAllocatorConfig::garbage_collection_threshold() != 0) {
    const std::string given = AcceleratorAllocatorConfig::last_allocator_settings();
    const char* const names = "expandable_segments and garbage_collection_threshold of ";
    const char* const others = variable_of_others(given);
    TORCH_CHECK_NOT_IMPLEMENTED(others != nullptr, "openreg: ", names, "PYTORCH_ALLOC_CONF are not supported, got ",
                                given, ": leave them out");
    TORCH_WARN_ONCE("openreg: ", names, others, " have no effect on openreg, got ", given);
  }
  return {AcceleratorAllocatorConfig::large_segment_size(), AcceleratorAllocatorConfig::max_split_size(),
          AcceleratorAllocatorConfig::max_non_split_rounding_size()};
}

// Rounds up, so that requests of similar sizes share blocks. With roundup_power2_divisions:4, for example, sizes from
// 4 KiB to 8 KiB become 4, 5, 6, 7 or 8 KiB.
size_t round_up(size_t bytes) {
  const size_t divisions = AcceleratorAllocatorConfig::roundup_power2_divisions(bytes);
  const size_t unit = divisions > 1 ? std::max(BlockPool::kUnit, std::bit_floor(bytes) / divisions) : BlockPool::kUnit;
  // The pool rounds up once more. A negative size has become one of these.
  TORCH_CHECK_WITH(OutOfMemoryError, bytes <= SIZE_MAX / 2, "openreg: ", bytes,
                   " bytes are more than any device can have");
  return (bytes + unit - 1) / unit * unit;
}
// LITERALINCLUDE END: allocator-settings

Stat as_stat(const Figure& figure) {
  Stat stat;
  stat.current = figure.current;
  stat.peak = figure.peak;
  stat.allocated = figure.increased;
  stat.freed = figure.decreased;
  return stat;
}

StatArray as_stats(const PoolStatistics& statistics, Figure BlockFigures::* figure) {
  StatArray stats;
  stats[static_cast<size_t>(StatType::AGGREGATE)] = as_stat(statistics.all.*figure);
  stats[static_cast<size_t>(StatType::SMALL_POOL)] = as_stat(statistics.small.*figure);
  stats[static_cast<size_t>(StatType::LARGE_POOL)] = as_stat(statistics.large.*figure);
  return stats;
}

class CachingAllocator final : public c10::DeviceAllocator {
 public:
  // LITERALINCLUDE START: allocator-allocate
  // Allocates for the calling thread's current stream of its current device. Zero bytes give a null pointer that
  // still knows its device.
  // Throws: torch.OutOfMemoryError, after emptying the cache and retrying.
  c10::DataPtr allocate(size_t requested) override { return allocate(requested, std::nullopt); }

  // The same from a pool; by default, that of the capture which records the stream's work, if there is one.
  c10::DataPtr allocate(size_t requested, std::optional<PoolId> pool) {
    const c10::Device device(c10::kPrivateUse1, resolve_device_index(-1));
    if (requested == 0) {
      return {nullptr, nullptr, &CachingAllocator::free, device};
    }
    initialize();
    const size_t bytes = round_up(requested);
    const MemoryHistory::StackScope stack(memory_history(), RecordContext::STATE);
    void* pointer = nullptr;
    orStream_t stream = current_stream_handle(device.index());
    if (!pool.has_value()) {
      const auto capture = capture_of(stream);
      pool = capture == nullptr ? PoolId() : PoolId(capture->pool());
    }
    const orError_t error = block_pool().allocate(&pointer, device.index(), stream, bytes, requested, settings, *pool);
    if (error == orErrorMemoryAllocation) {
      static_cast<void>(orGetLastError());
      raise_out_of_memory(device, bytes, requested);
    }
    check(error);
    report(pointer, static_cast<int64_t>(requested), device);
    trace(&Tracer::trace_gpu_memory_allocation, traced(pointer));
    // The context is the pointer itself: Allocator::raw_allocate requires it.
    return {pointer, pointer, &CachingAllocator::free, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &CachingAllocator::free; }
  // LITERALINCLUDE END: allocator-allocate

  // LITERALINCLUDE START: allocator-copy
  // For Allocator::clone. Stream-ordered, so that it runs after the kernels of this stream that write the source.
  void copy_data(void* dst, const void* src, size_t bytes) const override {
    const DriverCall call("orMemcpyAsync");
    check(orMemcpyAsync(dst, src, bytes, orMemcpyDeviceToDevice, current_stream_handle(current_device())));
  }
  // LITERALINCLUDE END: allocator-copy

  bool initialized() override { return is_initialized(); }

  // LITERALINCLUDE START: allocator-record-stream
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    orStream_t handle = stream_handle(stream);
    // By address, since a DLPack capsule over memory of the pool has a deleter of its own. What is not in the pool is
    // external memory, as from_blob takes it: its owner must keep it until its last use.
    if (data.get() != nullptr && !block_pool().record_stream(data.get(), handle)) {
      TORCH_CHECK(data.get_deleter() != raw_deleter(), "openreg: ", data.get(),
                  " is not memory in use, and cannot be recorded on ", stream);
    }
  }
  // LITERALINCLUDE END: allocator-record-stream

  // LITERALINCLUDE START: allocator-empty-cache
  void emptyCache(c10::MempoolId_t mempool) override {
    TORCH_CHECK_NOT_IMPLEMENTED(mempool == c10::MempoolId_t(0, 0),
                                "openreg: the cache of one memory pool cannot be emptied, only that of all");
    TORCH_CHECK(!device_waits_are_forbidden(),
                "openreg: empty_cache() waits for the device, which is not possible while a graph is captured: call it "
                "before the capture");
    for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
      wait_without_gil([index] { check(block_pool().release_cached(index)); });  // PyTorch calls this with the GIL
      const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, index));
      trace(&Tracer::trace_gpu_device_synchronization);  // the driver waits before it frees
    }
  }

  // Free and total bytes of the device. Cached blocks count as used, as they do for every other process.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, index));
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    check(orMemGetInfo(&free_bytes, &total_bytes));
    return {free_bytes, total_bytes};
  }
  // LITERALINCLUDE END: allocator-empty-cache

  // LITERALINCLUDE START: allocator-statistics
  DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const PoolStatistics statistics = block_pool().statistics(resolve_device_index(index));
    DeviceStats stats;
    stats.allocation = as_stats(statistics, &BlockFigures::allocations);
    stats.segment = as_stats(statistics, &BlockFigures::segments);
    stats.active = as_stats(statistics, &BlockFigures::active);
    stats.inactive_split = as_stats(statistics, &BlockFigures::inactive_split);
    stats.allocated_bytes = as_stats(statistics, &BlockFigures::allocated_bytes);
    stats.reserved_bytes = as_stats(statistics, &BlockFigures::reserved_bytes);
    stats.active_bytes = as_stats(statistics, &BlockFigures::active_bytes);
    stats.inactive_split_bytes = as_stats(statistics, &BlockFigures::inactive_split_bytes);
    stats.requested_bytes = as_stats(statistics, &BlockFigures::requested_bytes);
    stats.num_alloc_retries = statistics.retries;
    stats.num_ooms = statistics.out_of_memory;
    stats.num_device_alloc = statistics.driver_allocations;
    stats.num_device_free = statistics.driver_frees;
    stats.max_split_size = static_cast<int64_t>(AcceleratorAllocatorConfig::max_split_size());
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override { block_pool().reset_sums(resolve_device_index(index)); }
  void resetPeakStats(c10::DeviceIndex index) override { block_pool().reset_peaks(resolve_device_index(index)); }
  // LITERALINCLUDE END: allocator-statistics

 private:
  // LITERALINCLUDE START: allocator-free
  // A program may install a handler that turns warnings into exceptions. None may leave a deleter.
  static void warn_of_unknown(const void* pointer) noexcept {
    try {
      TORCH_WARN("openreg: ", pointer, " was freed, but is not memory in use: it was freed before, or never allocated");
    } catch (...) {
      // The handler has received the text.
    }
  }

  // The deleter of every DataPtr. Called by destructors: it must not throw. In a forked child the lock may be held
  // forever by a thread that does not exist here, and the memory belongs to the parent.
  static void free(void* pointer) {
    if (pointer == nullptr || is_in_bad_fork()) {
      return;
    }
    // Before the free: after it the memory may already be reused.
    trace(&Tracer::trace_gpu_memory_deallocation, traced(pointer));
    const MemoryHistory::StackScope stack(memory_history(), RecordContext::ALL);
    orError_t error = orSuccess;
    const BlockPool::Freed freed = block_pool().free(pointer, &error);
    warn(error);
    if (!freed.found) {
      warn_of_unknown(pointer);
      return;
    }
    const c10::Device device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(freed.device));
    report(pointer, -static_cast<int64_t>(freed.requested), device);
  }
  // LITERALINCLUDE END: allocator-free

  // LITERALINCLUDE START: allocator-out-of-memory
  [[noreturn]] void raise_out_of_memory(c10::Device device, size_t bytes, size_t requested) {
    const auto [free_bytes, total_bytes] = getMemoryInfo(device.index());
    const auto [allocated, reserved] = block_pool().held(device.index());
    memory_history().out_of_memory(device.index(), free_bytes, requested);
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(requested), allocated, reserved, device);
    const size_t limit = block_pool().limit(device.index());
    const std::string bound = limit == SIZE_MAX ? "" : ", of a limit of " + std::to_string(limit) + " bytes,";
    const char* const cache =
        captures_are_under_way() ? "kept, since a graph is captured (call empty_cache() before)" : "already emptied";
    const std::string text =
        c10::str("openreg out of memory: tried to allocate ", bytes, " bytes on ", device, ", which has ", total_bytes,
                 " bytes in total and ", free_bytes, " free; PyTorch", bound, " holds ", allocated, " in tensors and ",
                 reserved, " in all, with the cache ", cache,
                 ". Free tensors, use smaller batches, or give the device more memory with "
                 "OPENREG_DEVICE_MEMORY.");
    TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  }
  // LITERALINCLUDE END: allocator-out-of-memory

  // LITERALINCLUDE START: allocator-profiler
  // For torch.profiler with profile_memory=True.
  static void report(void* pointer, int64_t bytes, c10::Device device) {
    if (!c10::memoryProfilingEnabled()) {
      return;
    }
    const auto [allocated, reserved] = block_pool().held(device.index());
    c10::reportMemoryUsageToProfiler(pointer, bytes, allocated, reserved, device);
  }
  // LITERALINCLUDE END: allocator-profiler
};

}  // namespace

c10::DeviceAllocator& allocator() {
  static auto* const instance = new CachingAllocator();
  return *instance;
}

c10::DataPtr allocate_beside(PoolId pool, size_t bytes) {
  return static_cast<CachingAllocator&>(allocator()).allocate(bytes, PoolId(pool.first, pool.second + 1));
}

PoolId new_pool_id() {
  static std::atomic<uint64_t> last{0};
  return {last.fetch_add(1) + 1, 0};
}
void retain_device_pool(PoolId pool) { block_pool().retain_pool(pool); }
void release_device_pool(PoolId pool) { block_pool().release_pool(pool); }
// What the driver refuses to free stays in the cache.
void release_abandoned_pools() {
  if (block_pool().release_abandoned() != orSuccess) static_cast<void>(orGetLastError());
}
void device_capture_began() { block_pool().capture_began(); }
void device_capture_ended() { warn(block_pool().capture_ended()); }

void empty_cache() {
  if (is_initialized()) allocator().emptyCache();
}

// LITERALINCLUDE START: allocator-limit
void set_memory_fraction(double fraction, int64_t index) {
  TORCH_CHECK(fraction > 0 && fraction <= 1, "openreg: a fraction of memory is over 0 and up to 1, got ", fraction);
  const c10::DeviceIndex device = resolve_device_index(index);
  const size_t total = allocator().getMemoryInfo(device).second;
  block_pool().set_limit(device, fraction == 1 ? SIZE_MAX : static_cast<size_t>(fraction * static_cast<double>(total)));
}

double memory_fraction(int64_t index) {
  const c10::DeviceIndex device = resolve_device_index(index);
  const size_t limit = block_pool().limit(device);
  return limit == SIZE_MAX ? 1
                           : static_cast<double>(limit) / static_cast<double>(allocator().getMemoryInfo(device).second);
}

std::vector<Block> memory_blocks(int64_t index) { return block_pool().snapshot(resolve_device_index(index)); }
// LITERALINCLUDE END: allocator-limit

// LITERALINCLUDE START: allocator-recording
void record_memory_history(const HistorySettings& settings) {
  initialize();
  memory_history().record(settings);
  block_pool().set_observer(&memory_history());
}

void stop_memory_history() {
  if (!is_initialized()) return;  // nothing was recorded in this process
  block_pool().set_observer(nullptr);
  memory_history().stop();
}

std::vector<Block> memory_blocks_and_history(int64_t index, HistoryCopy* history) {
  const MemoryHistory::CopyScope scope(history);
  return memory_blocks(index);
}

std::optional<Block> memory_block(uint64_t address) { return block_pool().find(reinterpret_cast<void*>(address)); }
// LITERALINCLUDE END: allocator-recording

// LITERALINCLUDE START: allocator-registration
REGISTER_ALLOCATOR(c10::kPrivateUse1, &allocator())
// LITERALINCLUDE END: allocator-registration

}  // namespace openreg
