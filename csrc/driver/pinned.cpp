// Pinned host memory. On real hardware the pages are locked, so that the device can read them at any time; the
// simulated device uses the process's own page tables, so that knowing the ranges is enough.
#include "pinned.h"

#include <sys/mman.h>
#include <unistd.h>

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
#include "openreg_extended.h"

namespace openreg::driver {
namespace {

class PinnedBlocks {
 public:
  // False if the host has no memory for the record, or if a known block, `other`, overlaps the new one.
  bool add(const PinnedBlock& block, std::optional<PinnedBlock>* other) {
    const std::lock_guard lock(mutex_);
    *other = first_in(block.base, block.bytes);
    if (*other) return false;
    try {
      blocks_.emplace(static_cast<std::byte*>(block.base), block);
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
    return first_in(pointer, 1);
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

 private:
  // The first block that overlaps the range. Requires: mutex_ is held.
  std::optional<PinnedBlock> first_in(const void* start, size_t bytes) const {
    const auto* const begin = static_cast<const std::byte*>(start);
    const auto next = blocks_.upper_bound(begin);
    if (next != blocks_.begin()) {
      const auto& [base, block] = *std::prev(next);
      if (begin < base + block.bytes) return block;
    }
    if (next == blocks_.end() || next->first >= begin + bytes) return std::nullopt;
    return next->second;
  }
// LITERALINCLUDE END: memory-pinned-find

  mutable std::mutex mutex_;
  std::map<std::byte*, PinnedBlock, std::less<>> blocks_;
  std::atomic<size_t> count_{0};
};

PinnedBlocks& pinned_blocks() {
  alignas(PinnedBlocks) static std::byte storage[sizeof(PinnedBlocks)];
  static PinnedBlocks& blocks = *new (storage) PinnedBlocks;  // never destroyed: see process.cpp
  return blocks;
}

// LITERALINCLUDE START: memory-pinned-start
// Checks that a block starts at the pointer, and that its origin matches `registered`.
orError_t check_pinned_start(const Driver& driver, const void* pointer, bool registered, PinnedBlock* block) {
  const char* const origin = registered ? "orHostRegister" : "orMallocHost";
  const auto found = find_pinned(pointer);
  if (!found) {
    if (const auto location = driver.space.locate(pointer)) {
      return fail(orErrorInvalidPointer, "openreg:%d + 0x%zx is device memory; free it with orFree", location->device,
                  location->offset);
    }
    return fail(orErrorInvalidPointer, "%p is not from %s, or was %s before", pointer, origin,
                registered ? "unregistered" : "freed");
  }
  if (found->registered != registered) {
    return fail(orErrorInvalidPointer, "%p is not from %s; pass it to %s", pointer, origin,
                registered ? "orFreeHost" : "orHostUnregister");
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

// Adds a block to the list. If that fails, unmaps the block and sets errno.
bool record(void* base, size_t bytes) {
  std::optional<PinnedBlock> other;
  if (pinned_blocks().add({base, bytes}, &other)) return true;
  munmap(base, bytes);
  errno = ENOMEM;
  return false;
}

// Whether all pages of the range are mapped. An asynchronous msync changes nothing, and fails if there is a gap.
bool is_mapped(void* start, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(start) / page * page;
  uintptr_t end = 0;
  if (__builtin_add_overflow(reinterpret_cast<uintptr_t>(start), bytes, &end)) return false;
  return msync(reinterpret_cast<void*>(first), end - first, MS_ASYNC) == 0;
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
namespace {

// Waits until no copy uses the block that starts at the pointer, and removes it from the list.
orError_t take_pinned(const Driver& driver, const void* pointer, bool registered, PinnedBlock* block) {
  if (const orError_t error = check_pinned_start(driver, pointer, registered, block)) return error;
  bool passed = true;
  started_driver()->for_each_served_stream(
      [&passed](Stream& stream) { passed = stream.wait(stream.queued()) && passed; });
  if (!passed) rest_if_process_is_ending();  // a worker may still use the memory
  if (pinned_blocks().remove(pointer)) return orSuccess;
  return fail(orErrorInvalidPointer, "%p was freed by another thread meanwhile", pointer);
}

}  // namespace

orError_t orFreeHost(void* pointer) {
  const Call call("orFreeHost");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  if (pointer == nullptr) return orSuccess;
  PinnedBlock block;
  if (const orError_t error = take_pinned(*driver, pointer, false, &block)) return error;
  return unmap(block);
}
// LITERALINCLUDE END: memory-pinned-free

// LITERALINCLUDE START: memory-pinned-register
orError_t orHostRegister(void* pointer, size_t bytes) {
  const Call call("orHostRegister");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  if (pointer == nullptr || bytes == 0) return fail(orErrorInvalidValue, "pointer is null, or bytes is 0");
  if (const auto location = driver->space.locate(pointer)) {
    return fail(orErrorInvalidPointer, "openreg:%d + 0x%zx is device memory", location->device, location->offset);
  }
  if (!is_mapped(pointer, bytes)) {
    return fail(orErrorInvalidValue, "of %zu bytes at %p not all are memory of this process", bytes, pointer);
  }
  std::optional<PinnedBlock> other;
  if (pinned_blocks().add({pointer, bytes, true}, &other)) return orSuccess;
  if (other) {
    return fail(orErrorInvalidValue, "of %zu bytes at %p some are pinned already: %zu bytes at %p", bytes, pointer,
                other->bytes, other->base);
  }
  return fail(orErrorMemoryAllocation, "the host has no memory for the record");  // NOT PROVEN: needs such a host
}

orError_t orHostUnregister(void* pointer) {
  const Call call("orHostUnregister");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  PinnedBlock block;
  return take_pinned(*driver, pointer, true, &block);
}
// LITERALINCLUDE END: memory-pinned-register
