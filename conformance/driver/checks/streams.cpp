// Streams: order, waiting, and what is asked of them.
#include <cstdint>
#include <cstring>
#include <string>

#include "check.h"

namespace conformance {
namespace {

constexpr size_t kBytes = 4096;

int device_of(orStream_t stream, Where where = Where::current()) {
  int device = -1;
  ok(driver.orStreamGetDevice(stream, &device), where);
  return device;
}

void every_device_has_a_default() {
  for (int device = 0; device < device_count(); ++device) {
    orStream_t stream = default_stream(device);
    expect(stream != nullptr, "a handle of the default stream", "null");
    expect(stream == default_stream(device), "the same handle when it is asked for again", "another");
    expect_equal(device, device_of(stream), "the device of the default stream");
    ok(driver.orSetDevice(device));
    expect_equal(device, device_of(nullptr), "the device of the null stream");
    ok(driver.orStreamSynchronize(stream));
    ok(driver.orStreamQuery(stream));
  }
}

void created_on_the_current_device() {
  for (int device = 0; device < device_count(); ++device) {
    ok(driver.orSetDevice(device));
    orStream_t first = new_stream();
    orStream_t second = new_stream();
    expect(first != second && first != default_stream(device), "streams with handles of their own", "two are equal");
    expect_equal(device, device_of(first), "the device of a new stream");
    ok(driver.orStreamQuery(first));
    ok(driver.orStreamDestroy(first));
    ok(driver.orStreamSynchronize(second));
  }
}

void priorities() {
  int lowest = 0;
  int highest = 0;
  ok(driver.orDeviceGetStreamPriorityRange(&lowest, &highest));
  expect(highest <= lowest, "a smaller number for the highest priority", std::to_string(highest));
  if (highest == lowest) not_offered("priorities: lowest and highest are " + std::to_string(lowest));
  for (const auto& [asked, given] : {std::pair(lowest, lowest), std::pair(highest, highest),
                                     std::pair(lowest + 100, lowest), std::pair(highest - 100, highest)}) {
    orStream_t stream = nullptr;
    int priority = 99;
    ok(driver.orStreamCreateWithPriority(&stream, asked));
    ok(driver.orStreamGetPriority(stream, &priority));
    expect_equal(given, priority, "the priority of a stream that was created with " + std::to_string(asked));
  }
}

void work_comes_in_order() {
  orStream_t stream = new_stream();
  std::byte* const a = device_memory(kBytes);
  std::byte* const b = device_memory(kBytes);
  const auto bytes = pattern(kBytes, 1);
  std::byte* const before = device_memory(kBytes);
  const auto old = pattern(kBytes, 100);
  upload(a, old);
  upload(b, std::vector<std::byte>(kBytes, std::byte{0}));
  const Busy busy(stream, milliseconds(20));
  ok(driver.orMemcpyAsync(before, a, kBytes, orMemcpyDeviceToDevice, stream));
  ok(driver.orMemcpyAsync(a, bytes.data(), kBytes, orMemcpyHostToDevice, stream));
  ok(driver.orMemcpyAsync(b, a, kBytes, orMemcpyDeviceToDevice, stream));
  ok(driver.orMemsetAsync(a, 0, kBytes, stream));
  ok(driver.orStreamSynchronize(stream));
  expect_bytes(old, download(before, kBytes), "a copy whose source was written from the host after it");
  expect_bytes(bytes, download(b, kBytes), "a copy between a write to its source and a fill of it");
  expect_bytes(std::vector<std::byte>(kBytes, std::byte{0}), download(a, kBytes), "a fill after a copy");
}

void query_says_when_work_is_over() {
  orStream_t stream = new_stream();
  const Busy busy(stream);
  const orError_t answer = driver.orStreamQuery(stream);
  if (answer == orSuccess) {
    busy.must_be_over("orStreamQuery said that all is finished");
    busy.need_asynchronous("orLaunchKernel");
  }
  refused(orErrorNotReady, answer, "a stream whose kernel sleeps");
  ok(driver.orStreamSynchronize(stream));
  ok(driver.orStreamQuery(stream));
}

void launches_do_not_wait() {
  const Busy busy(new_stream());
  busy.need_asynchronous("orLaunchKernel");
}

void synchronize_waits() {
  orStream_t stream = new_stream();
  const Busy busy(stream);
  ok(driver.orStreamSynchronize(stream));
  busy.must_be_over("orStreamSynchronize returned");
}

void null_stream_is_waited_for() {
  const Busy busy(nullptr);
  ok(driver.orStreamSynchronize(nullptr));
  busy.must_be_over("orStreamSynchronize of the null stream returned");
}

void device_waits_for_all() {
  const Busy first(new_stream());
  const Busy second(new_stream(), milliseconds(150));
  ok(driver.orDeviceSynchronize());
  first.must_be_over("orDeviceSynchronize returned");
  second.must_be_over("orDeviceSynchronize returned");
}

void streams_are_independent() {
  orStream_t other = new_stream();
  std::byte* const memory = device_memory(kBytes);
  const Busy busy(new_stream(), milliseconds(500));
  busy.need_asynchronous("orLaunchKernel");
  ok(driver.orMemsetAsync(memory, 1, kBytes, other));
  ok(driver.orStreamSynchronize(other));
  busy.need_asynchronous("the wait for another stream");
}

// A stream of one device writes; one of the other, or of the same, waits for an event and reads.
void wait_is_kept(int writing, int reading) {
  ok(driver.orSetDevice(reading));
  orStream_t reader = new_stream();
  std::byte* const read = device_memory(kBytes);
  ok(driver.orSetDevice(writing));
  orStream_t writer = new_stream();
  orEvent_t event = new_event();
  std::byte* const from = device_memory(kBytes);
  std::byte* const written = device_memory(kBytes);
  const auto bytes = pattern(kBytes, 7);
  upload(from, bytes);
  upload(written, std::vector<std::byte>(kBytes, std::byte{0}));
  const Busy busy(writer);
  ok(driver.orMemcpyAsync(written, from, kBytes, orMemcpyDeviceToDevice, writer));
  ok(driver.orEventRecord(event, writer));
  ok(driver.orStreamWaitEvent(reader, event));
  offered(driver.orMemcpyAsync(read, written, kBytes, orMemcpyDeviceToDevice, reader), "copies from device to device");
  ok(driver.orStreamSynchronize(reader));
  expect_bytes(bytes, download(read, kBytes), "what a stream read behind the event of the stream that wrote it");
}

void waits_for_another_stream() { wait_is_kept(0, 0); }

void waits_for_another_device() {
  need_two_devices();
  wait_is_kept(0, 1);
}

void wait_does_not_block_the_host() {
  orStream_t writer = new_stream();
  orStream_t reader = new_stream();
  orEvent_t event = new_event();
  const Busy busy(writer);
  ok(driver.orEventRecord(event, writer));
  busy.need_asynchronous("orLaunchKernel");
  ok(driver.orStreamWaitEvent(reader, event));
  busy.need_asynchronous("orStreamWaitEvent");
}

void dead_and_foreign_handles_are_refused() {
  orStream_t stream = new_stream();
  orEvent_t event = new_event();
  ok(driver.orStreamDestroy(stream));
  orStream_t foreign = nullptr;
  std::memcpy(&foreign, &event, sizeof(foreign));
  orStream_t made_up = nullptr;
  const uintptr_t number = 0x123456789;
  std::memcpy(&made_up, &number, sizeof(made_up));
  for (const auto& [handle, given] : {std::pair(stream, "a stream that was destroyed"), std::pair(foreign, "an event"),
                                      std::pair(made_up, "a number that is no handle")}) {
    int device = 0;
    refused(orErrorInvalidHandle, driver.orStreamSynchronize(handle), given);
    refused(orErrorInvalidHandle, driver.orStreamQuery(handle), given);
    refused(orErrorInvalidHandle, driver.orStreamGetDevice(handle, &device), given);
    refused(orErrorInvalidHandle, driver.orStreamDestroy(handle), given);
  }
}

void default_cannot_be_destroyed() {
  for (int device = 0; device < device_count(); ++device) {
    refused(orErrorInvalidValue, driver.orStreamDestroy(default_stream(device)), "the default stream");
    ok(driver.orStreamSynchronize(default_stream(device)));
  }
}

void destroying_waits() {
  orStream_t stream = new_stream();
  std::byte* const memory = device_memory(kBytes);
  upload(memory, std::vector<std::byte>(kBytes, std::byte{0}));
  const Busy busy(stream);
  ok(driver.orMemsetAsync(memory, 5, kBytes, stream));
  ok(driver.orStreamDestroy(stream));
  busy.must_be_over("orStreamDestroy returned");
  expect_bytes(std::vector<std::byte>(kBytes, std::byte{5}), download(memory, kBytes),
               "a fill on a stream since destroyed");
}

constexpr Check kChecks[] = {
    {"streams", "every device has a default stream", "the current stream of a new thread", every_device_has_a_default},
    {"streams", "a stream belongs to the device that was current",
     "torch.Stream(device) makes that device current first", created_on_the_current_device},
    {"streams", "priorities are kept within the range", "torch.Stream(priority=-1)", priorities},
    {"streams", "work of a stream comes in order", "every operator takes its input from the one before it",
     work_comes_in_order},
    {"streams", "a query says when the work is over", "Stream.query(), and who waits without blocking",
     query_says_when_work_is_over},
    {"streams", "a launch does not wait", "Python prepares the next operators while the device computes",
     launches_do_not_wait},
    {"streams", "synchronizing waits for the work", "x.cpu(), item() and Stream.synchronize()", synchronize_waits},
    {"streams", "the null stream is the default stream", "code that names no stream", null_stream_is_waited_for},
    {"streams", "synchronizing a device waits for all its streams", "torch.accelerator.synchronize()",
     device_waits_for_all},
    {"streams", "one stream does not hold up another", "copies and kernels that overlap", streams_are_independent},
    {"streams", "a stream waits for an event of another", "Stream.wait_stream(), autograd, and copies between streams",
     waits_for_another_stream},
    {"streams", "a stream waits for an event of another device", "copies between devices, and data-parallel training",
     waits_for_another_device},
    {"streams", "a stream that waits does not hold up the host", "the thread of the program launches on",
     wait_does_not_block_the_host},
    {"streams", "handles that are dead or foreign are refused",
     "torch.Stream objects hold numbers that outlive streams", dead_and_foreign_handles_are_refused},
    {"streams", "the default stream cannot be destroyed", "it is everybody's", default_cannot_be_destroyed},
    {"streams", "destroying a stream waits for its work", "nothing; the backend keeps its streams", destroying_waits},
};

}  // namespace

std::span<const Check> stream_checks() { return kChecks; }

}  // namespace conformance
