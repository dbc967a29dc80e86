// Allocation, and what a pointer points to.
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "check.h"

namespace conformance {
namespace {

size_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  ok(driver.orMemGetInfo(&free, &total));
  return free;
}

orPointerAttributes attributes_of(const void* pointer, Where where = Where::current()) {
  orPointerAttributes attributes;
  std::memset(&attributes, 0xff, sizeof(attributes));
  ok(driver.orPointerGetAttributes(&attributes, pointer), where);
  return attributes;
}

void expect_block(const orPointerAttributes& seen, orMemoryType type, int device, const void* base, size_t size,
                  const std::string& what, Where where = Where::current()) {
  expect_equal(type, seen.type, "the type of " + what, where);
  expect_equal(device, seen.device, "the device of " + what, where);
  expect(seen.base == base, "the start of the allocation of " + what, "another address", where);
  expect_equal(static_cast<int64_t>(size), static_cast<int64_t>(seen.size), "the size of " + what, where);
}

void pointers_are_aligned() {
  orDeviceProp properties;
  ok(driver.orGetDeviceProperties(&properties, 0));
  std::vector<std::pair<uintptr_t, uintptr_t>> taken;
  for (const size_t bytes : {1, 3, 511, 512, 513, 4097, 1 << 20}) {
    const auto start = reinterpret_cast<uintptr_t>(device_memory(bytes));
    expect_equal(0, static_cast<int64_t>(start % properties.allocation_alignment),
                 "the address of " + std::to_string(bytes) + " bytes modulo the alignment");
    for (const auto& [begin, end] : taken) {
      expect(start >= end || start + bytes <= begin, "two allocations that do not overlap", "one begins in the other");
    }
    taken.emplace_back(start, start + bytes);
  }
}

void zero_bytes_are_null() {
  void* pointer = &pointer;
  ok(driver.orMalloc(&pointer, 0));
  expect(pointer == nullptr, "null for zero bytes", "a pointer");
}

void null_can_be_freed() {
  ok(driver.orFree(nullptr));
  offered(driver.orFreeHost(nullptr), "pinned memory");
}

void free_gives_back() {
  const size_t before = free_bytes();
  void* const pointer = device_memory(8 << 20);
  const size_t between = free_bytes();
  expect(between + (8 << 20) <= before, "at least 8 MiB less free memory after an allocation of 8 MiB",
         std::to_string(before - between) + " bytes less");
  ok(driver.orFree(pointer));
  expect_equal(static_cast<int64_t>(before), static_cast<int64_t>(free_bytes()), "the free memory after orFree");
}

void info_agrees_with_properties() {
  size_t free = 0;
  size_t total = 0;
  orDeviceProp properties;
  ok(driver.orMemGetInfo(&free, &total));
  ok(driver.orGetDeviceProperties(&properties, 0));
  expect_equal(static_cast<int64_t>(properties.total_memory), static_cast<int64_t>(total), "the total memory");
  expect(free <= total, "less free memory than there is", "more");
}

void attributes_of_device_memory() {
  for (int device = 0; device < device_count(); ++device) {
    ok(driver.orSetDevice(device));
    std::byte* const start = device_memory(1000);
    ok(driver.orSetDevice(0));
    for (const size_t offset : {0, 1, 500, 999}) {
      expect_block(attributes_of(start + offset), orMemoryTypeDevice, device, start, 1000,
                   "byte " + std::to_string(offset) + " of 1000 on device " + std::to_string(device));
    }
  }
}

void attributes_of_host_memory() {
  int on_stack = 0;
  void* const on_heap = std::malloc(100);
  for (const void* pointer : {static_cast<const void*>(&on_stack), static_cast<const void*>(on_heap),
                              static_cast<const void*>(""), static_cast<const void*>(nullptr)}) {
    expect_block(attributes_of(pointer), orMemoryTypeUnregistered, -1, nullptr, 0, "ordinary host memory");
  }
}

void attributes_of_pinned_memory() {
  auto* const start = static_cast<std::byte*>(pinned(1000));
  std::memset(start, 7, 1000);  // the host may touch it
  expect_block(attributes_of(start), orMemoryTypeHost, -1, start, 1000, "the first byte of pinned memory");
  expect_block(attributes_of(start + 999), orMemoryTypeHost, -1, start, 1000, "the last byte of pinned memory");
  ok(driver.orFreeHost(start));
  expect_equal(orMemoryTypeUnregistered, attributes_of(start).type, "the type of pinned memory that was freed");
}

void freed_memory_is_refused() {
  std::byte* const pointer = device_memory(1000);
  std::byte byte{};
  ok(driver.orFree(pointer));
  const std::string given = "memory that was freed";
  bool known = refused_as_freed(driver.orFree(pointer), {orErrorInvalidPointer}, given);
  known &= refused_as_freed(driver.orMemcpy(&byte, pointer, 1, orMemcpyDeviceToHost),
                            {orErrorInvalidPointer, orErrorInvalidMemcpyKind}, given);
  orPointerAttributes attributes{};
  const orError_t answer = driver.orPointerGetAttributes(&attributes, pointer);
  known &= refused_as_freed(answer, {orSuccess}, given);
  if (answer == orSuccess) expect_equal(orMemoryTypeUnregistered, attributes.type, "the type of " + given);
  if (!known) not_offered("freed memory told from memory of the host: the device has the host's addresses");
}

void other_pointers_are_refused() {
  std::byte* const device = device_memory(1000);
  int on_stack = 0;
  refused(orErrorMisalignedPointer, driver.orFree(device + 8), "a pointer into an allocation");
  refused(orErrorInvalidPointer, driver.orFree(&on_stack), "a pointer of the host");
  ok(driver.orFree(device));
}

void other_pinned_pointers_are_refused() {
  auto* const host = static_cast<std::byte*>(pinned(1000));
  std::byte* const device = device_memory(1000);
  refused(orErrorInvalidPointer, driver.orFree(host), "pinned memory");
  refused(orErrorInvalidPointer, driver.orFreeHost(device), "device memory");
  refused(orErrorMisalignedPointer, driver.orFreeHost(host + 8), "a pointer into pinned memory");
  ok(driver.orFreeHost(host));
  refused(orErrorInvalidPointer, driver.orFreeHost(host), "pinned memory that was freed");
}

void freed_from_another_device() {
  need_two_devices();
  ok(driver.orSetDevice(1));
  const size_t before = free_bytes();
  void* const pointer = device_memory(1 << 20);
  ok(driver.orSetDevice(0));
  ok(driver.orFree(pointer));
  ok(driver.orSetDevice(1));
  expect_equal(static_cast<int64_t>(before), static_cast<int64_t>(free_bytes()), "the free memory of device 1");
}

void free_waits() {
  constexpr size_t kBytes = 4096;
  const auto bytes = pattern(kBytes, 5);
  orStream_t stream = new_stream();
  std::byte* const source = device_memory(kBytes);
  std::byte* const target = device_memory(kBytes);
  upload(source, bytes);
  const Busy busy(stream);
  ok(driver.orMemcpyAsync(target, source, kBytes, orMemcpyDeviceToDevice, stream));
  ok(driver.orFree(source));
  busy.must_be_over("orFree returned");
  // Who gets the memory next may write to it at once.
  upload(device_memory(kBytes), pattern(kBytes, 77));
  expect_bytes(bytes, download(target, kBytes), "a copy whose source was freed after it was queued");
}

constexpr Check kChecks[] = {
    {"memory", "pointers are aligned, and allocations do not overlap", "vectorised kernels assume the alignment",
     pointers_are_aligned},
    {"memory", "zero bytes are a null pointer", "a tensor without elements has a null data_ptr()", zero_bytes_are_null},
    {"memory", "null can be freed", "the deleter of a tensor without elements runs as any other", null_can_be_freed},
    {"memory", "freeing gives the bytes back",
     "the caching allocator frees its blocks and asks again when memory runs out", free_gives_back},
    {"memory", "free and total memory agree with the properties", "torch.accelerator.get_memory_info()",
     info_agrees_with_properties},
    {"memory", "a pointer into device memory is recognised", "from_blob, DLPack, and the checks of every copy",
     attributes_of_device_memory},
    {"memory", "a pointer of the host is no error", "is_pinned() is asked of every CPU tensor",
     attributes_of_host_memory},
    {"memory", "a pointer into pinned memory is recognised", "is_pinned(), and copies that need not wait",
     attributes_of_pinned_memory},
    {"memory", "freed memory is refused", "a tensor that died too early is an exception, not wrong numbers",
     freed_memory_is_refused},
    {"memory", "what orMalloc did not return is refused", "a storage with a wrong deleter is an exception",
     other_pointers_are_refused},
    {"memory", "what orMallocHost did not return is refused", "the two allocators cannot be mixed up unnoticed",
     other_pinned_pointers_are_refused},
    {"memory", "memory can be freed while another device is current", "tensors die wherever their last reference is",
     freed_from_another_device},
    {"memory", "freeing waits for the work that is queued", "the caching allocator frees blocks that streams have used",
     free_waits},
};

}  // namespace

std::span<const Check> memory_checks() { return kChecks; }

}  // namespace conformance
