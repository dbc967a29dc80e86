// Pinned host memory. OpenCL has no notion of it; platforms provide it where host and device must both access the
// bytes.
#include "pinned.h"

#include <sys/mman.h>
#include <unistd.h>

#include <iterator>

#include "../openreg_extended.h"

#include "driver.h"

namespace openreg::driver::opencl {

bool PinnedBlocks::add(const PinnedBlock& block) {
  const std::lock_guard lock(mutex_);
  const auto after = blocks_.lower_bound(block.start);
  if (after != blocks_.end() && after->first - block.start < block.bytes) return false;
  if (after != blocks_.begin()) {
    const auto before = std::prev(after);
    if (block.start - before->first < before->second.bytes) return false;
  }
  blocks_.emplace(block.start, block);
  return true;
}

std::optional<PinnedBlock> PinnedBlocks::find(const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return std::nullopt;
  const PinnedBlock& block = std::prev(after)->second;
  return address - block.start < block.bytes ? std::optional(block) : std::nullopt;
}

bool PinnedBlocks::remove(uintptr_t start) {
  const std::lock_guard lock(mutex_);
  return blocks_.erase(start) == 1;
}

namespace {

// Fine-grained shared memory is host memory that devices may use at any time. Without it, allocates a buffer in host
// memory that stays mapped: NVIDIA's platform pins it.
std::optional<PinnedBlock> allocate(Driver& driver, size_t bytes) {
  Device& device = driver.current();
  const auto svm = device_info<cl_device_svm_capabilities>(device.id, CL_DEVICE_SVM_CAPABILITIES);
  if ((svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0) {
    void* const memory = clSVMAlloc(driver.context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, bytes, 0);
    if (memory == nullptr) return std::nullopt;
    return PinnedBlock{PinnedBlock::Kind::kShared, reinterpret_cast<uintptr_t>(memory), bytes, ClBuffer()};
  }
  cl_int status = CL_SUCCESS;
  const ClBuffer buffer(
      clCreateBuffer(driver.context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &status));
  ClQueue queue;
  if (status != CL_SUCCESS || device.create_queue(kLowestPriority, &queue) != orSuccess) return std::nullopt;
  void* const memory = clEnqueueMapBuffer(queue.get(), buffer.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                                          nullptr, nullptr, &status);
  if (status != CL_SUCCESS) return std::nullopt;
  return PinnedBlock{PinnedBlock::Kind::kMapped, reinterpret_cast<uintptr_t>(memory), bytes, buffer};
}

void give_back(Driver& driver, const PinnedBlock& block) {
  auto* const memory = reinterpret_cast<void*>(block.start);
  if (process_has_ended()) return;
  if (block.kind == PinnedBlock::Kind::kShared) {
    clSVMFree(driver.context, memory);
  } else if (block.kind == PinnedBlock::Kind::kMapped) {
    ClQueue queue;
    if (driver.devices.front()->create_queue(kLowestPriority, &queue) != orSuccess) return;
    if (clEnqueueUnmapMemObject(queue.get(), block.buffer.get(), memory, 0, nullptr, nullptr) == CL_SUCCESS) {
      (void)clFinish(queue.get());
    }
  }
}

// Finds the block that starts at the pointer, if its origin matches `registered`.
orError_t find_start(Driver& driver, const void* pointer, bool registered, PinnedBlock* block) {
  const auto found = driver.pinned.find(pointer);
  if (!found) {
    Arena::Place place{};
    Arena::Block allocation{};
    if (driver.device_of(pointer, &place, &allocation) != nullptr) {
      return fail(orErrorInvalidPointer, "%p is device memory; free it with orFree", pointer);
    }
    return fail(orErrorInvalidPointer, "%p is not from %s, or was freed before", pointer,
                registered ? "orHostRegister" : "orMallocHost");
  }
  if ((found->kind == PinnedBlock::Kind::kRegistered) != registered) {
    return fail(orErrorInvalidPointer, "%p is from %s", pointer,
                registered ? "orMallocHost; free it with orFreeHost" : "orHostRegister; end it with orHostUnregister");
  }
  if (found->start != reinterpret_cast<uintptr_t>(pointer)) {
    return fail(orErrorMisalignedPointer,
                "%p lies %zu bytes inside the pinned memory of %zu bytes at %p; pass its start", pointer,
                reinterpret_cast<uintptr_t>(pointer) - found->start, found->bytes,
                reinterpret_cast<void*>(found->start));
  }
  *block = *found;
  return orSuccess;
}

// Whether all pages of the range are mapped. An asynchronous msync changes nothing, and fails if there is a gap.
bool is_mapped(uintptr_t start, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = start / page * page;
  uintptr_t end = 0;
  if (__builtin_add_overflow(start, bytes, &end)) return false;
  return msync(reinterpret_cast<void*>(first), end - first, MS_ASYNC) == 0;
}

orError_t end_pinning(Driver& driver, void* pointer, bool registered) {
  if (pointer == nullptr && !registered) return orSuccess;
  PinnedBlock block{};
  if (const orError_t error = find_start(driver, pointer, registered, &block)) return error;
  for (const auto& device : driver.devices) device->finish();  // whether or not the work succeeds
  rest_if_process_is_ending();
  if (!driver.pinned.remove(block.start)) {
    return fail(orErrorInvalidPointer, "%p was freed by another thread meanwhile", pointer);
  }
  give_back(driver, block);
  return orSuccess;
}

}  // namespace
}  // namespace openreg::driver::opencl

using namespace openreg::driver::opencl;
using openreg::driver::fail;

orError_t orMallocHost(void** pointer, size_t bytes) {
  return call("orMallocHost", [&](Driver& driver) {
    if (pointer == nullptr) return fail(orErrorInvalidValue, "pointer is null");
    *pointer = nullptr;
    if (bytes == 0) return orSuccess;
    if (process_is_ending()) return end_refused_call();
    const auto block = allocate(driver, bytes);
    if (!block) return fail(orErrorMemoryAllocation, "the host has no room for %zu bytes of pinned memory", bytes);
    (void)driver.pinned.add(*block);
    *pointer = reinterpret_cast<void*>(block->start);
    return orSuccess;
  });
}

orError_t orFreeHost(void* pointer) {
  return call("orFreeHost", [&](Driver& driver) { return end_pinning(driver, pointer, false); });
}

// OpenCL cannot pin memory that it did not allocate. Its copies accept any host memory, though, and the caller
// guarantees what an asynchronous copy needs: that the bytes stay where they are until the stream has passed it.
orError_t orHostRegister(void* pointer, size_t bytes) {
  return call("orHostRegister", [&](Driver& driver) {
    if (pointer == nullptr || bytes == 0) return fail(orErrorInvalidValue, "pointer is null, or bytes is 0");
    Arena::Place place{};
    Arena::Block allocation{};
    if (driver.device_of(pointer, &place, &allocation) != nullptr) {
      return fail(orErrorInvalidPointer, "%p is device memory", pointer);
    }
    const auto start = reinterpret_cast<uintptr_t>(pointer);
    if (!is_mapped(start, bytes)) {
      return fail(orErrorInvalidValue, "of %zu bytes at %p not all are memory of this process", bytes, pointer);
    }
    const PinnedBlock block{PinnedBlock::Kind::kRegistered, start, bytes, ClBuffer()};
    if (driver.pinned.add(block)) return orSuccess;
    return fail(orErrorInvalidValue, "a part of the %zu bytes at %p is pinned already", bytes, pointer);
  });
}

orError_t orHostUnregister(void* pointer) {
  return call("orHostUnregister", [&](Driver& driver) { return end_pinning(driver, pointer, true); });
}
