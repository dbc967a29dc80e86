// Pinned host memory. On real hardware the pages are locked, so that the device can read them at any time; the
// simulated device reads through the process's own page tables, and knowing the ranges is enough.
#include "pinned.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#include "driver.h"
#include "error.h"

namespace openreg::driver {
namespace {

class PinnedBlocks {
 public:
  // False when the host has no memory for the record.
  bool add(void* base, size_t bytes) {
    const std::lock_guard lock(mutex_);
    try {
      blocks_.emplace(static_cast<std::byte*>(base), bytes);
    } catch (const std::bad_alloc&) {
      return false;
    }
    count_.store(blocks_.size());
    return true;
  }

// LITERALINCLUDE START: memory-pinned-find
  std::optional<PinnedBlock> find(const void* pointer) const {
    if (count_.load() == 0) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(static_cast<const std::byte*>(pointer));
    if (after == blocks_.begin()) return std::nullopt;
    const auto& [base, bytes] = *std::prev(after);
    if (pointer >= base + bytes) return std::nullopt;
    return PinnedBlock{base, bytes};
  }

  // False when no block starts there.
  bool remove(const void* base) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(static_cast<const std::byte*>(base));
    if (block == blocks_.end()) return false;
    blocks_.erase(block);
    count_.store(blocks_.size());
    return true;
  }
// LITERALINCLUDE END: memory-pinned-find

 private:
  mutable std::mutex mutex_;
  std::map<std::byte*, size_t, std::less<>> blocks_;
  std::atomic<size_t> count_{0};
};

PinnedBlocks& pinned_blocks() {
  alignas(PinnedBlocks) static std::byte storage[sizeof(PinnedBlocks)];
  static PinnedBlocks& blocks = *new (storage) PinnedBlocks;  // never destroyed: see process.cpp
  return blocks;
}

// LITERALINCLUDE START: memory-pinned-start
// Checks that a block starts at the pointer.
orError_t check_pinned_start(const Driver& driver, const void* pointer, PinnedBlock* block) {
  const auto found = find_pinned(pointer);
  if (!found) {
    if (const auto location = driver.space.locate(pointer)) {
      return fail(orErrorInvalidPointer, "openreg:%d + 0x%zx is device memory; free it with orFree", location->device,
                  location->offset);
    }
    return fail(orErrorInvalidPointer, "%p is not from orMallocHost, or was freed before", pointer);
  }
  if (found->base != pointer) {
    return fail(orErrorMisalignedPointer,
                "%p lies %td bytes inside the pinned memory of %zu bytes at %p; pass its start", pointer,
                static_cast<const std::byte*>(pointer) - static_cast<std::byte*>(found->base), found->bytes,
                found->base);
  }
  *block = *found;
  return orSuccess;
}
// LITERALINCLUDE END: memory-pinned-start

// Adds a block to the list. One that cannot be added is unmapped; then errno says why.
bool record(void* base, size_t bytes) {
  if (pinned_blocks().add(base, bytes)) return true;
  munmap(base, bytes);
  errno = ENOMEM;
  return false;
}

orError_t unmap(const PinnedBlock& block) {
  if (munmap(block.base, block.bytes) == 0) return orSuccess;
  return fail(orErrorInvalidPointer, "the host could not unmap %zu bytes of pinned memory at %p (%s)", block.bytes,
              block.base, std::strerror(errno));
}

}  // namespace

std::optional<PinnedBlock> find_pinned(const void* pointer) { return pinned_blocks().find(pointer); }

}  // namespace openreg::driver

using namespace openreg::driver;

// LITERALINCLUDE START: memory-pinned-malloc
orError_t orMallocHost(void** pointer, size_t bytes) {
  const Call call("orMallocHost");
  if (pointer == nullptr) return fail(orErrorInvalidValue, "pointer is null");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  *pointer = nullptr;
  if (bytes == 0) return orSuccess;
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED || !record(base, bytes)) {
    return fail(orErrorMemoryAllocation, "the host has no room for %zu bytes of pinned memory (%s)", bytes,
                std::strerror(errno));
  }
  *pointer = base;
  return orSuccess;
}
// LITERALINCLUDE END: memory-pinned-malloc

// LITERALINCLUDE START: memory-pinned-free
orError_t orFreeHost(void* pointer) {
  const Call call("orFreeHost");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  if (pointer == nullptr) return orSuccess;
  PinnedBlock block;
  if (const orError_t error = check_pinned_start(*driver, pointer, &block)) return error;
  bool passed = true;
  driver->for_each_served_stream([&passed](Stream& stream) { passed = stream.wait(stream.queued()) && passed; });
  if (!passed) rest_if_process_is_ending();  // a worker may still use the memory
  if (!pinned_blocks().remove(pointer)) {
    return fail(orErrorInvalidPointer, "%p was freed by another thread meanwhile", pointer);
  }
  return unmap(block);
}
// LITERALINCLUDE END: memory-pinned-free
