// Device memory: a caching allocator.
//
// PyTorch allocates and frees a block for nearly every operator, and the driver's free must wait for the device. So
// a freed block is kept and handed out again. That is safe at once, even while kernels that use it are still queued:
// the next user's work goes to the same stream and therefore runs after them.
//
// Thread: any. The GIL may or may not be held, so nothing here takes it; and no lock is held while PyTorch's memory
// profiler is called.
#include "runtime/allocator.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kSmallUnit = 512;
constexpr size_t kLargeUnit = size_t{2} << 20;
constexpr size_t kSmallLimit = size_t{1} << 20;

struct Block {
  size_t bytes;      // what the driver allocated
  size_t requested;  // what PyTorch asked for
  c10::DeviceIndex device;
};

// Rounding lets requests of nearly the same size share cached blocks.
size_t round_up(size_t bytes) {
  const size_t unit = bytes <= kSmallLimit ? kSmallUnit : kLargeUnit;
  return (bytes + unit - 1) / unit * unit;
}

void change(StatArray& stat, const Block& block, int64_t amount) {
  const StatType pool = block.bytes <= kSmallLimit ? StatType::SMALL_POOL : StatType::LARGE_POOL;
  for (const StatType type : {StatType::AGGREGATE, pool}) {
    auto& entry = stat[static_cast<size_t>(type)];
    amount > 0 ? entry.increase(amount) : entry.decrease(-amount);
  }
}

class CachingAllocator final : public c10::DeviceAllocator {
 public:
  // Allocates on the calling thread's current device. Zero bytes give a null pointer that still knows its device.
  // Throws: torch.OutOfMemoryError, after the cache was emptied and the driver asked once more.
  c10::DataPtr allocate(size_t requested) override {
    const c10::Device device(c10::kPrivateUse1, resolve_device_index(-1));
    if (requested == 0) {
      return {nullptr, nullptr, &CachingAllocator::free, device};
    }
    const Block block{round_up(requested), requested, device.index()};
    TORCH_CHECK_WITH(OutOfMemoryError, block.bytes >= requested, "openreg: ", requested, " bytes cannot be rounded up");
    void* pointer = take_cached(block);
    if (pointer == nullptr) {
      pointer = allocate_from_driver(block);
    }
    report(pointer, static_cast<int64_t>(requested), device);
    // The context is the pointer itself: Allocator::raw_allocate requires it.
    return {pointer, pointer, &CachingAllocator::free, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &CachingAllocator::free; }

  void copy_data(void* dst, const void* src, size_t bytes) const override {
    check(orMemcpy(dst, src, bytes, orMemcpyDeviceToDevice));
  }

  bool initialized() override { return is_initialized(); }

  void emptyCache(c10::MempoolId_t mempool) override {
    TORCH_CHECK_NOT_IMPLEMENTED(mempool == c10::MempoolId_t(0, 0), "openreg: memory pools are not supported");
    for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
      release_cached(index);
    }
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    // All work of a device is queued on its one stream, in whose order blocks are reused: there is nothing to record
    // but a stream of another device, which could still be reading the block when it is handed out again.
    static_cast<void>(stream_handle(stream));
    TORCH_CHECK(data.device() == stream.device(), "openreg: memory of ", data.device(), " cannot be recorded on ",
                stream, ": wait for that stream before the tensor is freed");
  }

  DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return pool(index).stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    reset(index, [](auto& stat) { stat.reset_accumulated(); });
    const std::lock_guard<std::mutex> lock(mutex_);
    DeviceStats& stats = pool(index).stats;
    stats.num_alloc_retries = stats.num_ooms = stats.num_device_alloc = stats.num_device_free = 0;
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    reset(index, [](auto& stat) { stat.reset_peak(); });
  }

  // Free and total bytes of the device. Cached blocks count as used, as they do for every other process.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, index));
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    check(orMemGetInfo(&free_bytes, &total_bytes));
    return {free_bytes, total_bytes};
  }

 private:
  struct Pool {
    std::multimap<size_t, void*> cached;
    DeviceStats stats;
  };

  // The deleter of every DataPtr. Called by destructors: it must not throw.
  static void free(void* pointer) { static_cast<CachingAllocator&>(allocator()).return_to_cache(pointer); }

  // Requires: mutex_ is held.
  Pool& pool(c10::DeviceIndex index) {
    if (pools_.empty()) {
      pools_.resize(device_count());
    }
    return pools_.at(resolve_device_index(index));
  }

  // The smallest cached block that is large enough and at most a quarter too large, or null.
  void* take_cached(const Block& wanted) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Pool& blocks = pool(wanted.device);
    const auto found = blocks.cached.lower_bound(wanted.bytes);
    if (found == blocks.cached.end() || found->first > wanted.bytes + wanted.bytes / 4) {
      return nullptr;
    }
    const auto [bytes, pointer] = *found;
    blocks.cached.erase(found);
    hand_out(pointer, {bytes, wanted.requested, wanted.device});
    return pointer;
  }

  // Requires: mutex_ is held.
  void hand_out(void* pointer, const Block& block) {
    DeviceStats& stats = pool(block.device).stats;
    change(stats.allocation, block, 1);
    change(stats.active, block, 1);
    change(stats.allocated_bytes, block, static_cast<int64_t>(block.bytes));
    change(stats.active_bytes, block, static_cast<int64_t>(block.bytes));
    change(stats.requested_bytes, block, static_cast<int64_t>(block.requested));
    in_use_.emplace(pointer, block);
  }

  void* allocate_from_driver(const Block& block) {
    initialize();
    void* pointer = nullptr;
    orError_t error = orMalloc(&pointer, block.bytes);
    if (error == orErrorMemoryAllocation) {
      static_cast<void>(orGetLastError());
      release_cached(block.device);
      count(block.device, &DeviceStats::num_alloc_retries);
      error = orMalloc(&pointer, block.bytes);
    }
    if (error == orErrorMemoryAllocation) {
      static_cast<void>(orGetLastError());
      raise_out_of_memory(block);
    }
    check(error);
    const std::lock_guard<std::mutex> lock(mutex_);
    DeviceStats& stats = pool(block.device).stats;
    ++stats.num_device_alloc;
    change(stats.segment, block, 1);
    change(stats.reserved_bytes, block, static_cast<int64_t>(block.bytes));
    hand_out(pointer, block);
    return pointer;
  }

  void return_to_cache(void* pointer) noexcept {
    // In a forked child the lock may be held for ever by a thread that does not exist here, and the memory is not
    // this process's to give back.
    if (pointer == nullptr || is_in_bad_fork()) {
      return;
    }
    c10::Device device(c10::kPrivateUse1);
    int64_t requested = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = in_use_.find(pointer);
      if (found == in_use_.end()) {
        TORCH_WARN("openreg: ", pointer, " was freed, but it is not a block that is in use (freed twice, or foreign)");
        return;
      }
      const Block block = found->second;
      in_use_.erase(found);
      Pool& blocks = pools_[block.device];
      change(blocks.stats.allocation, block, -1);
      change(blocks.stats.active, block, -1);
      change(blocks.stats.allocated_bytes, block, -static_cast<int64_t>(block.bytes));
      change(blocks.stats.active_bytes, block, -static_cast<int64_t>(block.bytes));
      change(blocks.stats.requested_bytes, block, -static_cast<int64_t>(block.requested));
      blocks.cached.emplace(block.bytes, pointer);
      device.set_index(block.device);
      requested = static_cast<int64_t>(block.requested);
    }
    report(pointer, -requested, device);
  }

  // Gives the cached blocks of a device back to the driver, which waits for the device's work first.
  void release_cached(c10::DeviceIndex index) {
    std::multimap<size_t, void*> cached;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      cached.swap(pool(index).cached);
      DeviceStats& stats = pool(index).stats;
      for (const auto& [bytes, pointer] : cached) {
        ++stats.num_device_free;
        change(stats.segment, {bytes, 0, index}, -1);
        change(stats.reserved_bytes, {bytes, 0, index}, -static_cast<int64_t>(bytes));
      }
    }
    // The driver counts the memory as used until it is freed, so an error here loses nothing but the block's reuse.
    for (const auto& [bytes, pointer] : cached) {
      check(orFree(pointer));
    }
  }

  [[noreturn]] void raise_out_of_memory(const Block& block) {
    count(block.device, &DeviceStats::num_ooms);
    const auto [free_bytes, total_bytes] = getMemoryInfo(block.device);
    const DeviceStats stats = getDeviceStats(block.device);
    const auto allocated = stats.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].current;
    const auto reserved = stats.reserved_bytes[static_cast<size_t>(StatType::AGGREGATE)].current;
    const c10::Device device(c10::kPrivateUse1, block.device);
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(block.requested), allocated, reserved, device);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "openreg out of memory: tried to allocate ", block.bytes, " bytes on ",
                     device, ", which has ", total_bytes, " bytes in total and ", free_bytes, " free; PyTorch holds ",
                     allocated, " in tensors and ", reserved,
                     " in all, with the cache already emptied. Free tensors, use smaller batches, or give the device "
                     "more memory with OPENREG_DEVICE_MEMORY.");
  }

  void count(c10::DeviceIndex index, int64_t DeviceStats::* counter) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++(pool(index).stats.*counter);
  }

  template <class Reset>
  void reset(c10::DeviceIndex index, Reset reset_one) {
    const std::lock_guard<std::mutex> lock(mutex_);
    DeviceStats& stats = pool(index).stats;
    for (StatArray* array : {&stats.allocation, &stats.segment, &stats.active, &stats.allocated_bytes,
                             &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      for (auto& stat : *array) {
        reset_one(stat);
      }
    }
  }

  // What torch.profiler shows with profile_memory=True.
  void report(void* pointer, int64_t bytes, c10::Device device) {
    size_t allocated = 0;
    size_t reserved = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const DeviceStats& stats = pools_[device.index()].stats;
      allocated = stats.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].current;
      reserved = stats.reserved_bytes[static_cast<size_t>(StatType::AGGREGATE)].current;
    }
    c10::reportMemoryUsageToProfiler(pointer, bytes, allocated, reserved, device);
  }

  std::mutex mutex_;
  std::unordered_map<void*, Block> in_use_;
  std::vector<Pool> pools_;
};

}  // namespace

c10::DeviceAllocator& allocator() {
  static auto* const instance = new CachingAllocator();
  return *instance;
}

REGISTER_ALLOCATOR(c10::kPrivateUse1, &allocator())

}  // namespace openreg
