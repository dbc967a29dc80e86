// Memory beyond openreg.h: fills with a pattern, 2-D copies, registered host memory, stream-ordered allocation.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace conformance {
namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kBytes = 4096;
constexpr size_t kPatterns[] = {1, 2, 4, 8, 16};

// ---- Fills ------------------------------------------------------------------------------------------------------

void fill_repeats_the_pattern() {
  need("fills with a pattern");
  for (const size_t bytes : kPatterns) {
    for (const size_t count : {size_t{1}, size_t{100}, size_t{70001}}) {
      const size_t start = 3 * bytes;
      auto expected = pattern(start + bytes * count + 50, 5);
      std::byte* const device = device_memory(expected.size());
      upload(device, expected);
      const auto value = pattern(bytes, 200);
      for (size_t i = 0; i < count; ++i) std::memcpy(expected.data() + start + i * bytes, value.data(), bytes);
      offered(driver.orFillAsync(device + start, value.data(), bytes, count, nullptr), "fills with a pattern");
      ok(driver.orStreamSynchronize(nullptr));
      expect_bytes(expected, download(device, expected.size()),
                   "memory in whose middle a pattern of " + std::to_string(bytes) + " bytes was repeated " +
                       std::to_string(count) + " times");
      ok(driver.orFree(device));
    }
  }
}

void wrong_fills_are_refused() {
  need("fills with a pattern");
  const auto background = pattern(kBytes, 5);
  const std::byte value[32] = {};
  std::byte* const device = device_memory(kBytes);
  upload(device, background);
  for (const size_t bytes : {2, 4, 8, 16}) {
    const orError_t answer = driver.orFillAsync(device + bytes / 2, value, bytes, 4, nullptr);
    if (answer == orErrorNotSupported) offered(answer, "fills with a pattern");
    refused(orErrorMisalignedPointer, answer, "an address that is a multiple of half the pattern");
  }
  for (const size_t bytes : {0, 3, 12, 32}) {
    refused(orErrorInvalidValue, driver.orFillAsync(device, value, bytes, 4, nullptr),
            "a pattern of " + std::to_string(bytes) + " bytes");
  }
  refused(orErrorInvalidValue, driver.orFillAsync(device, nullptr, 4, 4, nullptr), "no pattern");
  refused(orErrorOutOfRange, driver.orFillAsync(device, value, 4, kBytes / 4 + 1, nullptr), "a place too many");
  refused(orErrorOutOfRange, driver.orFillAsync(device, value, 16, SIZE_MAX / 8, nullptr), "a product that overflows");
  ok(driver.orFillAsync(device, value, 4, 0, nullptr));
  ok(driver.orStreamSynchronize(nullptr));
  expect_bytes(background, download(device, kBytes), "memory after fills of nothing, and ones that were refused");
}

void fill_comes_in_order() {
  need("fills with a pattern");
  const orStream_t stream = new_stream();
  std::byte* const device = device_memory(kBytes);
  std::byte* const copy = device_memory(kBytes);
  uint32_t value = 0x04030201;
  const Busy busy(stream);
  ok(driver.orMemsetAsync(device, 0, kBytes, stream));
  offered(driver.orFillAsync(device, &value, sizeof(value), kBytes / sizeof(value), stream), "fills with a pattern");
  value = 0;  // the pattern was read before the call returned
  ok(driver.orMemcpyAsync(copy, device, kBytes, orMemcpyDeviceToDevice, stream));
  ok(driver.orMemsetAsync(device, 0, kBytes, stream));
  ok(driver.orStreamSynchronize(stream));
  Bytes expected(kBytes);
  for (size_t i = 0; i < kBytes; ++i) expected[i] = static_cast<std::byte>(i % 4 + 1);
  expect_bytes(expected, download(copy, kBytes), "a fill between two others, as a copy behind it has read it");
}

// ---- 2-D copies -------------------------------------------------------------------------------------------------

struct Plane {
  size_t pitch;
  size_t width;
  size_t height;
  // The last row ends with its last byte, not with its pitch.
  [[nodiscard]] size_t bytes() const { return pitch * (height - 1) + width; }
};
constexpr Plane kFrom{100, 37, 23};
constexpr Plane kTo{64, 37, 23};

Bytes with_rows(Bytes target, const Bytes& source) {
  for (size_t row = 0; row < kTo.height; ++row) {
    std::memcpy(target.data() + row * kTo.pitch, source.data() + row * kFrom.pitch, kTo.width);
  }
  return target;
}

orError_t copy_plane(void* dst, const void* src, orMemcpyKind kind, orStream_t stream) {
  return driver.orMemcpy2DAsync(dst, kTo.pitch, src, kFrom.pitch, kTo.width, kTo.height, kind, stream);
}

void copy_of_a_block(orMemcpyKind kind, int to_device) {
  need("2-D copies");
  const bool host_to = kind == orMemcpyDeviceToHost || kind == orMemcpyHostToHost;
  const bool host_from = kind == orMemcpyHostToDevice || kind == orMemcpyHostToHost;
  auto source = pattern(kFrom.bytes(), 3);
  const auto background = pattern(kTo.bytes(), 150);
  std::byte* const from = device_memory(source.size());
  upload(from, source);
  ok(driver.orSetDevice(to_device));
  std::byte* const to = device_memory(background.size());
  upload(to, background);
  ok(driver.orSetDevice(0));
  const orStream_t stream = new_stream();
  Bytes host = background;
  for (const orMemcpyKind named : {kind, orMemcpyDefault}) {
    offered(copy_plane(host_to ? host.data() : to, host_from ? source.data() : from, named, stream), "2-D copies");
    ok(driver.orStreamSynchronize(stream));
    expect_bytes(with_rows(background, source), host_to ? host : download(to, background.size()),
                 "a block of 23 rows of 37 bytes, and what lies between the rows");
  }
}

void block_to_the_device() { copy_of_a_block(orMemcpyHostToDevice, 0); }
void block_to_the_host() { copy_of_a_block(orMemcpyDeviceToHost, 0); }
void block_within_a_device() { copy_of_a_block(orMemcpyDeviceToDevice, 0); }
void block_within_the_host() { copy_of_a_block(orMemcpyHostToHost, 0); }
void block_between_devices() {
  need_two_devices();
  copy_of_a_block(orMemcpyDeviceToDevice, 1);
}

void wrong_blocks_are_refused() {
  need("2-D copies");
  const auto background = pattern(1000, 1);
  Bytes host(2000);
  std::byte* const device = device_memory(1000);
  upload(device, background);
  const auto attempt = [&](size_t dst_pitch, size_t src_pitch, size_t width, size_t height, orMemcpyKind kind) {
    return driver.orMemcpy2DAsync(device, dst_pitch, host.data(), src_pitch, width, height, kind, nullptr);
  };
  const orError_t narrow = attempt(9, 20, 10, 5, orMemcpyHostToDevice);
  if (narrow == orErrorNotSupported) offered(narrow, "2-D copies");
  refused(orErrorInvalidValue, narrow, "rows of 10 bytes that are to lie 9 bytes apart");
  refused(orErrorInvalidValue, attempt(20, 9, 10, 5, orMemcpyHostToDevice), "rows of 10 bytes that lie 9 bytes apart");
  refused(orErrorOutOfRange, attempt(100, 10, 10, 11, orMemcpyHostToDevice), "eleven rows where ten have room");
  refused(orErrorOutOfRange, attempt(SIZE_MAX / 2, 10, 10, 4, orMemcpyHostToDevice), "a product that overflows");
  refused(orErrorInvalidMemcpyKind, attempt(20, 20, 10, 5, orMemcpyDeviceToHost), "host and device swapped");
  ok(attempt(20, 20, 0, 5, orMemcpyHostToDevice));
  ok(attempt(20, 20, 10, 0, orMemcpyHostToDevice));
  ok(driver.orStreamSynchronize(nullptr));
  expect_bytes(background, download(device, 1000), "memory after copies of nothing, and ones that were refused");
}

void blocks_of_pageable_memory() {
  need("2-D copies");
  const orStream_t stream = new_stream();
  const auto sent = pattern(kFrom.bytes(), 8);
  auto source = sent;
  std::byte* const device = device_memory(kTo.bytes());
  upload(device, Bytes(kTo.bytes(), std::byte{0}));
  Bytes received(kTo.bytes(), std::byte{0});
  const Busy busy(stream);
  offered(copy_plane(device, source.data(), orMemcpyHostToDevice, stream), "2-D copies");
  std::fill(source.begin(), source.end(), std::byte{0xee});
  ok(driver.orMemcpy2DAsync(received.data(), kTo.pitch, device, kTo.pitch, kTo.width, kTo.height, orMemcpyDeviceToHost,
                            stream));
  busy.must_be_over("orMemcpy2DAsync to pageable memory returned");
  expect_bytes(with_rows(Bytes(kTo.bytes(), std::byte{0}), sent), received,
               "a block whose source was overwritten after the call, when the copy back returned");
}

// ---- Registered host memory -------------------------------------------------------------------------------------

// Pages that no allocator of the host shares with other data.
std::byte* host_pages(size_t bytes) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) fail("the host has memory", std::strerror(errno));
  return static_cast<std::byte*>(pages);
}

orPointerAttributes attributes_of(const void* pointer, Where where = Where::current()) {
  orPointerAttributes attributes{};
  ok(driver.orPointerGetAttributes(&attributes, pointer), where);
  return attributes;
}

void registered_memory_is_pinned() {
  need("registered host memory");
  std::byte* const host = host_pages(4 * kBytes);
  const auto bytes = pattern(4 * kBytes, 1);
  std::memcpy(host, bytes.data(), bytes.size());
  offered(driver.orHostRegister(host, 4 * kBytes), "registered host memory");
  for (const size_t offset : {size_t{0}, size_t{1000}, 4 * kBytes - 1}) {
    const orPointerAttributes seen = attributes_of(host + offset);
    expect_equal(orMemoryTypeHost, seen.type, "the type of registered memory");
    expect_equal(-1, seen.device, "the device of registered memory");
    expect(seen.base == host, "the start of registered memory", "another address");
    expect_equal(4 * kBytes, static_cast<int64_t>(seen.size), "the size of registered memory");
  }
  ok(driver.orHostUnregister(host));
  expect_equal(orMemoryTypeUnregistered, attributes_of(host).type, "the type of memory after orHostUnregister");
  expect_bytes(bytes, Bytes(host, host + bytes.size()), "host memory that was registered and unregistered");
}

void registered_copies_come_in_order() {
  need("registered host memory");
  const orStream_t stream = new_stream();
  std::byte* const host = host_pages(2 * kBytes);
  const auto bytes = pattern(kBytes, 9);
  std::byte* const device = device_memory(kBytes);
  offered(driver.orHostRegister(host, 2 * kBytes), "registered host memory");
  std::memcpy(host, bytes.data(), kBytes);
  const Busy busy(stream);
  ok(driver.orMemcpyAsync(device, host, kBytes, orMemcpyHostToDevice, stream));
  ok(driver.orMemcpyAsync(host + kBytes, device, kBytes, orMemcpyDeviceToHost, stream));
  ok(driver.orHostUnregister(host));  // waits, since copies may still use the memory
  busy.must_be_over("orHostUnregister returned");
  expect_bytes(bytes, Bytes(host + kBytes, host + 2 * kBytes), "two copies from and to registered memory");
}

void registered_twice_is_refused() {
  need("registered host memory");
  std::byte* const host = host_pages(4 * kBytes);
  offered(driver.orHostRegister(host, 2 * kBytes), "registered host memory");
  refused(orErrorInvalidValue, driver.orHostRegister(host, 2 * kBytes), "memory that is registered");
  refused(orErrorInvalidValue, driver.orHostRegister(host + kBytes, 2 * kBytes), "memory of which half is registered");
  expect(driver.orFreeHost(host) != orSuccess, "an error from orFreeHost, given registered memory", "orSuccess");
  expect(driver.orHostUnregister(host + kBytes) != orSuccess, "an error for a pointer into registered memory",
         "orSuccess");
  ok(driver.orHostUnregister(host));
  expect(driver.orHostUnregister(host) != orSuccess, "an error for memory that is not registered any more",
         "orSuccess");
}

// ---- Stream-ordered memory --------------------------------------------------------------------------------------

std::byte* memory_on(orStream_t stream, size_t bytes, Where where = Where::current()) {
  void* pointer = nullptr;
  offered(driver.orMallocAsync(&pointer, bytes, stream), "stream-ordered memory", where);
  expect(pointer != nullptr, "a pointer from orMallocAsync", "null and orSuccess", where);
  return static_cast<std::byte*>(pointer);
}

void ordered_memory_is_used() {
  need("stream-ordered memory");
  const orStream_t stream = new_stream();
  const auto bytes = pattern(kBytes, 4);
  std::byte* const memory = memory_on(stream, kBytes);
  Bytes received(kBytes);
  ok(driver.orMemcpyAsync(memory, bytes.data(), kBytes, orMemcpyHostToDevice, stream));
  ok(driver.orMemcpyAsync(received.data(), memory, kBytes, orMemcpyDeviceToHost, stream));
  expect_bytes(bytes, received, "what was copied to stream-ordered memory and back");
  expect_equal(orMemoryTypeDevice, attributes_of(memory + kBytes - 1).type, "the type of stream-ordered memory");
  expect_equal(0, static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory) % properties_of(0).allocation_alignment),
               "its address modulo the alignment");
  ok(driver.orFreeAsync(memory, stream));
  ok(driver.orStreamSynchronize(stream));
}

// The next owner of the memory must not write before the last one has read.
void ordered_free_comes_in_order() {
  need("stream-ordered memory");
  const orStream_t stream = new_stream();
  const auto bytes = pattern(kBytes, 6);
  std::byte* const target = device_memory(kBytes);
  std::byte* const first = memory_on(stream, kBytes);
  ok(driver.orMemcpyAsync(first, bytes.data(), kBytes, orMemcpyHostToDevice, stream));
  ok(driver.orStreamSynchronize(stream));
  const Busy busy(stream);
  ok(driver.orMemcpyAsync(target, first, kBytes, orMemcpyDeviceToDevice, stream));
  ok(driver.orFreeAsync(first, stream));
  upload(device_memory(kBytes), pattern(kBytes, 99));
  std::byte* const second = memory_on(stream, kBytes);
  ok(driver.orMemsetAsync(second, 0, kBytes, stream));
  ok(driver.orStreamSynchronize(stream));
  expect_bytes(bytes, download(target, kBytes), "a copy whose source was freed on the stream after it");
}

void ordered_memory_does_not_wait() {
  need("stream-ordered memory");
  const orStream_t stream = new_stream();
  const Busy busy(stream);
  busy.need_asynchronous("orLaunchKernel");
  std::byte* const memory = memory_on(stream, kBytes);
  busy.need_asynchronous("orMallocAsync");
  ok(driver.orFreeAsync(memory, stream));
  busy.need_asynchronous("orFreeAsync");
}

void ordered_memory_comes_back() {
  need("stream-ordered memory");
  const orStream_t stream = new_stream();
  const size_t piece = properties_of(0).total_memory / 8;
  for (int i = 0; i < 40; ++i) {
    ok(driver.orFreeAsync(memory_on(stream, piece), stream));
    // Neither call waits: what the stream has not freed yet may be missing.
    if (i % 4 == 3) ok(driver.orStreamSynchronize(stream));
  }
  void* pointer = nullptr;
  refused(orErrorMemoryAllocation, driver.orMallocAsync(&pointer, SIZE_MAX / 2, stream), "half of all addresses");
  ok(driver.orFree(device_memory(piece)));
}

constexpr Check kChecks[] = {
    {"extended memory", "a fill repeats its pattern, and writes no byte beside",
     "fill_(), ones() and full() of any dtype are one call", fill_repeats_the_pattern},
    {"extended memory", "wrong fills are refused", "a mistake in the backend becomes an exception",
     wrong_fills_are_refused},
    {"extended memory", "a fill comes in the order of its stream", "zero_() between two uses of a tensor",
     fill_comes_in_order},
    {"extended memory", "a block goes to the device", "matrix[:, 3:40].to(device) is one call", block_to_the_device},
    {"extended memory", "a block goes to the host", "matrix[:, 3:40].cpu() is one call", block_to_the_host},
    {"extended memory", "a block is copied within a device", "contiguous() of a part of a matrix",
     block_within_a_device},
    {"extended memory", "a block is copied within the host", "nothing; the call is complete with it",
     block_within_the_host},
    {"extended memory", "a block goes from one device to another", "matrix[:, 3:40].to('openreg:1')",
     block_between_devices},
    {"extended memory", "wrong blocks are refused", "a mistake in the backend becomes an exception",
     wrong_blocks_are_refused},
    {"extended memory", "blocks of pageable memory are copied as ordinary copies are",
     "a CPU tensor may die right after x.to(device)", blocks_of_pageable_memory},
    {"extended memory", "registered memory is pinned", "is_pinned() of memory that another library allocated",
     registered_memory_is_pinned},
    {"extended memory", "registered memory takes part in queued copies",
     "non_blocking=True with memory shared between processes", registered_copies_come_in_order},
    {"extended memory", "memory is registered once", "a batch that two loaders share is pinned by one of them",
     registered_twice_is_refused},
    {"extended memory", "stream-ordered memory can be used on its stream",
     "workspaces of kernels, taken and given back", ordered_memory_is_used},
    {"extended memory", "stream-ordered memory is freed after the work before it",
     "a workspace goes out of scope while its kernel runs", ordered_free_comes_in_order},
    {"extended memory", "taking and freeing stream-ordered memory does not wait",
     "operators take workspaces while the device computes", ordered_memory_does_not_wait},
    {"extended memory", "stream-ordered memory comes back, and runs out", "training runs for weeks",
     ordered_memory_comes_back},
};

}  // namespace

std::span<const Check> extended_memory_checks() { return kChecks; }

}  // namespace conformance
