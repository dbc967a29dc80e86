// Pinned host memory: PyTorch's caching host allocator, over the driver.
//
// PyTorch provides the cache; a backend implements how memory is pinned and how the progress of a stream is queried. A
// block that an asynchronous copy uses is not handed out again before the copy's event has passed.
// Called on any thread, with or without the GIL.
#include "runtime/host_allocator.h"

#include <c10/core/Event.h>
#include <c10/util/FunctionRef.h>

#include <cstring>
#include <exception>
#include <optional>
#include <vector>

#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/stream.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: pinned-runtime
// The base class calls these; each makes a few driver calls.
class PinnedMemory final : public at::CachingHostAllocatorImpl<c10::Stream, c10::Event> {
 public:
  // For Allocator::clone.
  void copy_data(void* dst, const void* src, size_t bytes) const override { std::memcpy(dst, src, bytes); }

 private:
  // Throws: torch.OutOfMemoryError when the host has no memory to pin.
  void allocate_host_memory(size_t bytes, void** pointer) override {
    initialize();
    const DriverCall call("orMallocHost");
    check(orMallocHost(pointer, bytes));
  }

  void free_block(at::HostBlock<c10::Stream>* block) override {
    const DriverCall call("orFreeHost");
    warn(orFreeHost(block->ptr_));
  }

  // Runs in the deleter of a DataPtr, where an exception would end the process. An event that was not recorded counts
  // as passed, which is correct for a failed device: it runs nothing more.
  void record_stream(std::optional<std::vector<c10::Event>>& events, c10::Stream stream) override {
    c10::Event event(c10::kPrivateUse1);
    try {
      // An event of a capture would never pass. The program keeps what it allocated before and a graph reads.
      if (!is_capturing(stream_handle(stream))) event.record(stream);
    } catch (const std::exception& error) {
      warn(error);
    }
    events->push_back(std::move(event));
  }

  bool query_event(c10::Event& event) override { return event.query(); }
  c10::Stream get_current_stream() const override { return current_stream(-1); }
  // Called only while the backend captures a graph. Such memory is never reused, since replays access it.
  bool stream_is_capturing(c10::Stream stream) const override { return is_capturing(stream_handle(stream)); }
};
// LITERALINCLUDE END: pinned-runtime

// LITERALINCLUDE START: pinned-allocate
void free_pinned(void* block);

// Allocates CPU memory with pinned pages. Zero bytes give a null pointer.
class PinnedAllocator final : public at::CachingHostAllocatorInterface<PinnedMemory, free_pinned> {
 public:
  // The driver waits before it frees, and PyTorch calls this with the GIL. It must be released before the cache takes
  // its locks: a thread with the GIL may wait for them.
  void empty_cache() override {
    wait_without_gil([this] { CachingHostAllocatorInterface::empty_cache(); });
  }
  // These take the locks, too, which another thread may hold while the driver waits.
  at::HostStats get_stats() override {
    at::HostStats stats;
    with_locks([&] { stats = CachingHostAllocatorInterface::get_stats(); });
    return stats;
  }
  void reset_accumulated_stats() override {
    with_locks([this] { CachingHostAllocatorInterface::reset_accumulated_stats(); });
  }
  void reset_peak_stats() override {
    with_locks([this] { CachingHostAllocatorInterface::reset_peak_stats(); });
  }

 private:
  static void with_locks(c10::function_ref<void()> use) {
    if (is_in_bad_fork()) static_cast<void>(device_count());  // raises: in a child they may be held for ever
    wait_without_gil(use);
  }
};

// Never destroyed: tensors may outlive static destruction.
PinnedAllocator& pinned_allocator() {
  static auto* const instance = new PinnedAllocator();
  return *instance;
}

// The deleter of every DataPtr. In a forked child the locks may be held forever, and the memory belongs to the parent.
void free_pinned(void* block) {
  if (!is_in_bad_fork()) {
    pinned_allocator().free(block);
  }
}
// LITERALINCLUDE END: pinned-allocate

}  // namespace

at::HostAllocator& host_allocator() { return pinned_allocator(); }

// LITERALINCLUDE START: pinned-query
void* pinned_memory_with(const void* pointer) {
  if (!is_initialized()) {
    return nullptr;  // This process has pinned nothing, and a query would start the driver.
  }
  orPointerAttributes attributes{};
  check(orPointerGetAttributes(&attributes, pointer));
  return attributes.type == orMemoryTypeHost ? attributes.base : nullptr;
}
// LITERALINCLUDE END: pinned-query

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &host_allocator())

}  // namespace openreg
