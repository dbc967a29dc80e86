// Events: points in the work of a stream.
#include <chrono>
#include <cstring>
#include <future>
#include <string>

#include "check.h"

namespace conformance {
namespace {

constexpr size_t kBytes = 4096;

void never_recorded_has_passed() {
  orEvent_t event = new_event();
  ok(driver.orEventQuery(event));
  ok(driver.orEventSynchronize(event));
  orStream_t stream = new_stream();
  ok(driver.orStreamWaitEvent(stream, event));
  ok(driver.orStreamSynchronize(stream));
}

// A timing event, where the driver has those, and one without time must answer alike.
void query_says_when_passed(unsigned flags) {
  orStream_t stream = new_stream();
  orEvent_t event = new_event(flags);
  const Busy busy(stream);
  ok(driver.orEventRecord(event, stream));
  const orError_t answer = driver.orEventQuery(event);
  if (answer == orSuccess) {
    busy.must_be_over("orEventQuery said that the stream has passed the event");
    busy.need_asynchronous("orLaunchKernel");
  }
  refused(orErrorNotReady, answer, "an event behind a kernel that sleeps");
  ok(driver.orEventSynchronize(event));
  busy.must_be_over("orEventSynchronize returned");
  ok(driver.orEventQuery(event));
}

void query_without_timing() { query_says_when_passed(orEventDisableTiming); }
void query_with_timing() { query_says_when_passed(orEventDefault); }

void synchronize_waits() {
  orStream_t stream = new_stream();
  orEvent_t event = new_event();
  std::byte* const device = device_memory(kBytes);
  upload(device, std::vector<std::byte>(kBytes, std::byte{0}));
  const Busy busy(stream);
  ok(driver.orMemsetAsync(device, 3, kBytes, stream));
  ok(driver.orEventRecord(event, stream));
  std::async(std::launch::async, [&] { ok(driver.orEventSynchronize(event)); }).get();
  busy.must_be_over("orEventSynchronize on another thread returned");
  expect_bytes(std::vector<std::byte>(kBytes, std::byte{3}), download(device, kBytes), "a fill before an event");
}

void passes_before_later_work() {
  orStream_t stream = new_stream();
  orEvent_t event = new_event();
  ok(driver.orEventRecord(event, stream));
  const Busy busy(stream, milliseconds(500));
  busy.need_asynchronous("orLaunchKernel");
  ok(driver.orEventSynchronize(event));
  busy.need_asynchronous("the wait for an event recorded before the launch");
}

// The reader waits for the first record; the second, on an idle stream, must not let it go earlier.
void recording_again_moves() {
  orStream_t writer = new_stream();
  orStream_t reader = new_stream();
  orStream_t idle = new_stream();
  orEvent_t event = new_event();
  std::byte* const from = device_memory(kBytes);
  std::byte* const written = device_memory(kBytes);
  std::byte* const read = device_memory(kBytes);
  const auto bytes = pattern(kBytes, 3);
  upload(from, bytes);
  upload(written, std::vector<std::byte>(kBytes, std::byte{0}));
  const Busy busy(writer);
  ok(driver.orMemcpyAsync(written, from, kBytes, orMemcpyDeviceToDevice, writer));
  ok(driver.orEventRecord(event, writer));
  ok(driver.orStreamWaitEvent(reader, event));
  ok(driver.orEventRecord(event, idle));
  ok(driver.orEventSynchronize(event));
  ok(driver.orMemcpyAsync(read, written, kBytes, orMemcpyDeviceToDevice, reader));
  ok(driver.orStreamSynchronize(reader));
  expect_bytes(bytes, download(read, kBytes), "what was read behind an event that was recorded again elsewhere");
}

void elapsed_time() {
  orStream_t stream = new_stream();
  orEvent_t start = new_event(orEventDefault);
  orEvent_t end = new_event(orEventDefault);
  const auto before = Clock::now();
  ok(driver.orEventRecord(start, stream));
  const Busy busy(stream, milliseconds(50));
  ok(driver.orEventRecord(end, stream));
  double took = -1;
  const orError_t early = driver.orEventElapsedTime(&took, start, end);
  if (early == orErrorNotSupported) offered(early, "the time between events");
  if (early != orErrorNotReady) {
    ok(early);
    busy.must_be_over("orEventElapsedTime gave the time of an event");
  }
  ok(driver.orEventSynchronize(end));
  const double wall = milliseconds_since(before);
  ok(driver.orEventElapsedTime(&took, start, end));
  // A clock of the device may count coarsely.
  expect(took >= 49 && took <= wall + 1,
         "50 ms at least for a kernel that sleeps for 50 ms, and no more than the host has measured, " +
             std::to_string(wall) + " ms",
         std::to_string(took));
  ok(driver.orEventElapsedTime(&took, end, start));
  expect(took <= -49, "a negative time from the later event to the earlier", std::to_string(took));
}

void no_time_without_timing() {
  orEvent_t timed = new_event(orEventDefault);
  orEvent_t untimed = new_event();
  double took = 0;
  ok(driver.orEventRecord(timed, nullptr));
  ok(driver.orEventRecord(untimed, nullptr));
  ok(driver.orDeviceSynchronize());
  const orError_t answer = driver.orEventElapsedTime(&took, timed, untimed);
  if (answer == orErrorNotSupported) offered(answer, "the time between events");
  refused(orErrorInvalidValue, answer, "an event with orEventDisableTiming");
  refused(orErrorInvalidValue, driver.orEventElapsedTime(&took, timed, new_event(orEventDefault)),
          "an event that was never recorded");
}

void no_time_between_devices() {
  need_two_devices();
  orEvent_t events[2] = {};
  for (const int device : {0, 1}) {
    ok(driver.orSetDevice(device));
    events[device] = new_event(orEventDefault);
    ok(driver.orEventRecord(events[device], nullptr));
    ok(driver.orDeviceSynchronize());
  }
  double took = 0;
  const orError_t answer = driver.orEventElapsedTime(&took, events[0], events[1]);
  if (answer == orErrorNotSupported) offered(answer, "the time between events");
  refused(orErrorInvalidValue, answer, "events of two devices");
}

void other_devices_stream_is_refused() {
  need_two_devices();
  orEvent_t event = new_event();
  refused(orErrorInvalidValue, driver.orEventRecord(event, default_stream(1)), "an event of 0 and a stream of 1");
}

void dead_and_foreign_handles_are_refused() {
  orEvent_t event = new_event();
  orStream_t stream = new_stream();
  ok(driver.orEventDestroy(event));
  orEvent_t foreign = nullptr;
  std::memcpy(&foreign, &stream, sizeof(foreign));
  for (const auto& [handle, given] : {std::pair(event, "an event that was destroyed"), std::pair(foreign, "a stream"),
                                      std::pair(orEvent_t{}, "null")}) {
    refused(orErrorInvalidHandle, driver.orEventRecord(handle, stream), given);
    refused(orErrorInvalidHandle, driver.orEventQuery(handle), given);
    refused(orErrorInvalidHandle, driver.orEventSynchronize(handle), given);
    refused(orErrorInvalidHandle, driver.orStreamWaitEvent(stream, handle), given);
    refused(orErrorInvalidHandle, driver.orEventDestroy(handle), given);
  }
}

void unknown_flags_are_refused() {
  orEvent_t event = nullptr;
  refused(orErrorInvalidValue, driver.orEventCreateWithFlags(&event, 0x80), "flag 0x80");
}

void can_die_while_it_is_waited_for() {
  orStream_t stream = new_stream();
  orStream_t waiting = new_stream();
  orEvent_t event = new_event(orEventDefault);
  std::byte* const memory = device_memory(kBytes);
  const Busy busy(stream);
  ok(driver.orEventRecord(event, stream));
  ok(driver.orStreamWaitEvent(waiting, event));
  ok(driver.orMemsetAsync(memory, 4, kBytes, waiting));
  ok(driver.orEventDestroy(event));
  ok(driver.orStreamSynchronize(waiting));
  busy.must_be_over("a stream that waited for an event since destroyed went on");
  expect_bytes(std::vector<std::byte>(kBytes, std::byte{4}), download(memory, kBytes), "a fill behind the event");
}

constexpr Check kChecks[] = {
    {"events", "an event that was never recorded has passed", "torch.Event().query() is true",
     never_recorded_has_passed},
    {"events", "a query says when the event has passed", "the allocators hand a block out again when it has",
     query_without_timing},
    {"events", "a query of an event with time does too", "torch.Event(enable_timing=True).query()", query_with_timing},
    {"events", "synchronizing waits, on any thread", "Event.synchronize(), and data loaders that pin memory",
     synchronize_waits},
    {"events", "an event does not wait for later work", "a wait for a batch does not wait for the next one",
     passes_before_later_work},
    {"events", "a record that was waited for stays when the event moves",
     "PyTorch records one event again and again; autograd does for each gradient", recording_again_moves},
    {"events", "elapsed time is in milliseconds", "Event.elapsed_time(), profilers and benchmarks", elapsed_time},
    {"events", "there is no time where none was taken", "Event.elapsed_time() raises and does not invent a number",
     no_time_without_timing},
    {"events", "there is no time between two devices", "clocks of two devices have nothing to do with each other",
     no_time_between_devices},
    {"events", "a stream of another device is refused", "Event.record() with the wrong stream is an exception",
     other_devices_stream_is_refused},
    {"events", "handles that are dead or foreign are refused", "a mistake in the backend becomes an exception",
     dead_and_foreign_handles_are_refused},
    {"events", "unknown flags are refused", "a flag of a newer header is not ignored", unknown_flags_are_refused},
    {"events", "an event can be destroyed while a stream waits for it",
     "copies between streams make an event, wait, and drop it at once", can_die_while_it_is_waited_for},
};

}  // namespace

std::span<const Check> event_checks() { return kChecks; }

}  // namespace conformance
