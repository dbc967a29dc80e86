// Too much, and very much.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "check.h"

namespace conformance {
namespace {

size_t total_bytes() {
  orDeviceProp properties;
  ok(driver.orGetDeviceProperties(&properties, 0));
  return properties.total_memory;
}

// A device may allow only a part of its memory as one allocation. It may not know how much.
size_t largest_allocation() {
  orDeviceProp properties;
  ok(driver.orGetDeviceProperties(&properties, 0));
  return properties.max_allocation != 0 ? properties.max_allocation : SIZE_MAX;
}

size_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  ok(driver.orMemGetInfo(&free, &total));
  return free;
}

void too_much_is_refused() {
  for (const size_t bytes : {total_bytes() + 1, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX}) {
    void* pointer = nullptr;
    refused(orErrorMemoryAllocation, driver.orMalloc(&pointer, bytes), std::to_string(bytes) + " bytes");
  }
  expect(*driver.orGetErrorDetail() != '\0', "a text about memory that ran out", "none");
  ok(driver.orFree(device_memory(1 << 20)));
}

// Takes all memory in pieces.
std::vector<void*> take_all(size_t piece) {
  std::vector<void*> taken;
  void* pointer = nullptr;
  orError_t error = orSuccess;
  while ((error = driver.orMalloc(&pointer, piece)) == orSuccess) {
    expect(pointer != nullptr, "a pointer from orMalloc", "null and orSuccess");
    expect(taken.size() <= total_bytes() / piece, "no more memory than there is", "more");
    taken.push_back(pointer);
  }
  refused(orErrorMemoryAllocation, error, "a piece too many");
  return taken;
}

void exhausted_memory_comes_back() {
  const size_t before = free_bytes();
  const size_t piece = std::max<size_t>(total_bytes() / 64, 1 << 20);
  auto taken = take_all(piece);
  expect(taken.size() >= 32, "half of the memory at least", std::to_string(taken.size()) + " pieces of a 64th");
  // Every second one first, so that the gaps must be joined again.
  for (size_t i = 0; i < taken.size(); i += 2) ok(driver.orFree(taken[i]));
  for (size_t i = 1; i < taken.size(); i += 2) ok(driver.orFree(taken[i]));
  expect_equal(static_cast<int64_t>(before), static_cast<int64_t>(free_bytes()), "the free memory after all was freed");
  void* const large = device_memory(std::min(before / 2, largest_allocation()));
  ok(driver.orFree(large));
}

void memory_does_not_leak() {
  const size_t piece = total_bytes() / 8;
  for (int i = 0; i < 40; ++i) ok(driver.orFree(device_memory(piece)));
}

void many_small_allocations() {
  std::vector<void*> taken;
  for (int i = 0; i < 10000; ++i) taken.push_back(device_memory(1));
  for (void* const pointer : taken) ok(driver.orFree(pointer));
}

void many_streams() {
  std::vector<orStream_t> streams;
  std::byte* const memory = device_memory(4096);
  for (int i = 0; i < 256; ++i) streams.push_back(new_stream());
  for (orStream_t stream : streams) ok(driver.orMemsetAsync(memory, 1, 4096, stream));
  ok(driver.orDeviceSynchronize());
  for (orStream_t stream : streams) ok(driver.orStreamDestroy(stream));
}

void streams_come_and_go() {
  for (int i = 0; i < 2000; ++i) ok(driver.orStreamDestroy(new_stream()));
}

void many_events() {
  std::vector<orEvent_t> events;
  for (int i = 0; i < 20000; ++i) {
    events.push_back(new_event());
    ok(driver.orEventRecord(events.back(), nullptr));
  }
  ok(driver.orEventSynchronize(events.back()));
  for (orEvent_t event : events) ok(driver.orEventDestroy(event));
}

void much_is_queued() {
  constexpr int kFills = 5000;
  orStream_t stream = new_stream();
  std::byte* const memory = device_memory(kFills);
  upload(memory, std::vector<std::byte>(kFills, std::byte{0}));
  const Busy busy(stream, milliseconds(50));
  std::vector<std::byte> expected(kFills);
  for (int i = 0; i < kFills; ++i) {
    expected[static_cast<size_t>(i)] = static_cast<std::byte>(i % 250 + 1);
    ok(driver.orMemsetAsync(memory + i, i % 250 + 1, 1, stream));
  }
  ok(driver.orStreamSynchronize(stream));
  expect_bytes(expected, download(memory, kFills), "what 5000 fills behind a busy stream wrote");
}

constexpr Check kChecks[] = {
    {"limits", "more memory than there is is refused", "torch.OutOfMemoryError, and a program that goes on",
     too_much_is_refused},
    {"limits", "memory that was used up comes back", "the caching allocator empties its cache and asks again",
     exhausted_memory_comes_back},
    {"limits", "memory can be taken and freed for ever", "training runs for weeks", memory_does_not_leak},
    {"limits", "many small allocations", "a model with caching turned off", many_small_allocations},
    {"limits", "many streams at once", "the backend keeps 64 for each device", many_streams},
    {"limits", "streams come and go", "streams of other libraries", streams_come_and_go},
    {"limits", "many events at once", "the allocators keep one for every use of a block by another stream",
     many_events},
    {"limits", "much is queued", "Python is thousands of operators ahead; a launch waits then, and does not fail",
     much_is_queued},
};

}  // namespace

std::span<const Check> limit_checks() { return kChecks; }

}  // namespace conformance
