// Pinned host memory straight from the driver, with statistics and without a cache.
//
// Called on any thread, with or without the GIL. The driver frees pinned memory only after the work of all devices
// is done, so no copy can still be using it: that is the price of having no cache, and the reason why record_event
// has nothing to remember.
#include "runtime/host_allocator.h"

#include <mutex>
#include <unordered_map>

#include "runtime/device.h"
#include "runtime/error.h"

namespace openreg {
namespace {

class PinnedAllocator final : public at::HostAllocator {
 public:
  // LITERALINCLUDE START: pinned-allocate
  // The memory belongs to the CPU: only its pages are special. Zero bytes give a null pointer.
  // Throws: torch.OutOfMemoryError when the host has no memory to pin.
  c10::DataPtr allocate(size_t bytes) override {
    initialize();
    void* pointer = nullptr;
    check(orMallocHost(&pointer, bytes));
    remember(pointer, bytes);
    return {pointer, pointer, &PinnedAllocator::free, c10::kCPU};
  }
  // LITERALINCLUDE END: pinned-allocate

  c10::DeleterFnPtr raw_deleter() const override { return &PinnedAllocator::free; }

  void copy_data(void* dst, const void* src, size_t bytes) const override {
    check(orMemcpy(dst, src, bytes, orMemcpyHostToHost));
  }

  // True: the memory will not be reused before the stream's work is done. orFreeHost waits for it.
  bool record_event(void* pointer, void*, c10::Stream) override { return is_pinned(pointer); }

  // There is no cache to give back.
  void empty_cache() override {}

  at::HostStats get_stats() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (at::Stat* stat : stats()) {
      stat->reset_accumulated();
    }
    stats_.num_host_alloc = stats_.num_host_free = 0;
  }
  void reset_peak_stats() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (at::Stat* stat : stats()) {
      stat->reset_peak();
    }
  }

 private:
  // The deleter of every DataPtr. Called by destructors: it must not throw.
  static void free(void* pointer) {
    if (pointer != nullptr && !is_in_bad_fork()) {
      static_cast<PinnedAllocator&>(host_allocator()).forget(pointer);
      warn(orFreeHost(pointer));
    }
  }

  void remember(void* pointer, size_t bytes) {
    if (pointer == nullptr) {
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_.emplace(pointer, bytes);
    ++stats_.num_host_alloc;
    for (at::Stat* count : {&stats_.active_requests, &stats_.allocations}) {
      count->increase(1);
    }
    for (at::Stat* sum : {&stats_.active_bytes, &stats_.allocated_bytes}) {
      sum->increase(bytes);
    }
  }

  void forget(void* pointer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sizes_.find(pointer);
    if (found == sizes_.end()) {
      return;  // The driver's error names the pointer.
    }
    ++stats_.num_host_free;
    for (at::Stat* count : {&stats_.active_requests, &stats_.allocations}) {
      count->decrease(1);
    }
    for (at::Stat* sum : {&stats_.active_bytes, &stats_.allocated_bytes}) {
      sum->decrease(found->second);
    }
    sizes_.erase(found);
  }

  std::array<at::Stat*, 4> stats() {
    return {&stats_.active_requests, &stats_.active_bytes, &stats_.allocations, &stats_.allocated_bytes};
  }

  std::mutex mutex_;
  std::unordered_map<void*, size_t> sizes_;
  at::HostStats stats_;
};

}  // namespace

at::HostAllocator& host_allocator() {
  static auto* const instance = new PinnedAllocator();
  return *instance;
}

// LITERALINCLUDE START: pinned-query
bool is_pinned(const void* pointer) {
  if (!is_initialized()) {
    return false;  // Nothing was pinned by this process, and asking the driver would start it.
  }
  orPointerAttributes attributes{};
  check(orPointerGetAttributes(&attributes, pointer));
  return attributes.type == orMemoryTypeHost;
}
// LITERALINCLUDE END: pinned-query

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &host_allocator())

}  // namespace openreg
