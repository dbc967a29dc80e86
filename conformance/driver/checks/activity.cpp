// The records of what the device did.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "module.h"

namespace conformance {
namespace {

constexpr size_t kBytes = 8192;

// A copy of a record, whose name ends with the callback.
struct Seen {
  orActivity record;
  std::string name;
};

class Recorder {
 public:
  void start(Where where = Where::current()) {
    need("activity");
    offered(driver.orActivityStart(add, this), "activity", where);
  }
  // Stops, and returns the records of a stream in the order of their beginnings.
  std::vector<Seen> stop(orStream_t stream, Where where = Where::current()) {
    ok(driver.orActivityStop(), where);
    const std::scoped_lock lock(mutex_);
    std::vector<Seen> own;
    std::copy_if(seen_.begin(), seen_.end(), std::back_inserter(own),
                 [stream](const Seen& one) { return one.record.stream == stream; });
    std::sort(own.begin(), own.end(),
              [](const Seen& a, const Seen& b) { return a.record.begin_nanoseconds < b.record.begin_nanoseconds; });
    return own;
  }
  size_t count() {
    const std::scoped_lock lock(mutex_);
    return seen_.size();
  }

 private:
  static void add(const orActivity* activity, void* user) {
    auto& own = *static_cast<Recorder*>(user);
    const std::scoped_lock lock(own.mutex_);
    own.seen_.push_back({*activity, activity->name != nullptr ? activity->name : ""});
  }

  std::mutex mutex_;
  std::vector<Seen> seen_;
};

int64_t nanoseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Those of one kind.
std::vector<Seen> of_kind(const std::vector<Seen>& all, orActivityKind kind) {
  std::vector<Seen> result;
  std::copy_if(all.begin(), all.end(), std::back_inserter(result),
               [kind](const Seen& one) { return one.record.kind == kind; });
  return result;
}

Seen only(const std::vector<Seen>& all, const std::string& what, Where where = Where::current()) {
  expect_equal(1, static_cast<int64_t>(all.size()), "the number of records of " + what, where);
  return all.front();
}

void copies_and_fills_are_seen() {
  need("activity");
  const orStream_t stream = new_stream();
  std::byte* const device = device_memory(kBytes);
  std::byte* const other = device_memory(kBytes);
  const auto bytes = pattern(kBytes, 1);
  std::vector<std::byte> received(kBytes);
  Recorder recorder;
  recorder.start();
  ok(driver.orMemcpyAsync(device, bytes.data(), kBytes, orMemcpyHostToDevice, stream));
  ok(driver.orMemcpyAsync(other, device, kBytes - 1, orMemcpyDefault, stream));
  ok(driver.orMemcpyAsync(received.data(), other, kBytes - 2, orMemcpyDeviceToHost, stream));
  ok(driver.orMemsetAsync(device, 0, kBytes - 3, stream));
  const auto seen = recorder.stop(stream);
  const auto copies = of_kind(seen, orActivityMemcpy);
  expect_equal(3, static_cast<int64_t>(copies.size()), "the number of records of three copies");
  const orMemcpyKind kinds[] = {orMemcpyHostToDevice, orMemcpyDeviceToDevice, orMemcpyDeviceToHost};
  for (size_t i = 0; i < 3; ++i) {
    expect_equal(kinds[i], copies[i].record.copy_kind, "the kind of copy " + std::to_string(i));
    expect_equal(static_cast<int64_t>(kBytes - i), static_cast<int64_t>(copies[i].record.bytes),
                 "the bytes of copy " + std::to_string(i));
  }
  const Seen fill = only(of_kind(seen, orActivityMemset), "one fill");
  expect_equal(kBytes - 3, static_cast<int64_t>(fill.record.bytes), "the bytes of the fill");
}

void kernels_are_seen() {
  need("activity");
  const orFunction_t function =
      compile_function("__kernel void nothing_much(__global int* x) { x[0] = 1; }\n", "nothing_much");
  const orStream_t stream = new_stream();
  int* const device = device_values(std::vector<int>{0});
  Recorder recorder;
  recorder.start();
  launch(function, 1, 1, Arguments().pointer(device), stream);
  const auto seen = recorder.stop(stream);
  const Seen kernel = only(of_kind(seen, orActivityKernel), "one kernel");
  expect(kernel.name.find("nothing_much") != std::string::npos, "the kernel's name, nothing_much",
         "'" + kernel.name + "'");
  expect_equal(0, static_cast<int64_t>(kernel.record.bytes), "the bytes of a kernel");
}

void device_and_time_are_right() {
  need("activity");
  for (int device = 0; device < device_count(); ++device) {
    ok(driver.orSetDevice(device));
    const orStream_t stream = new_stream();
    std::byte* const memory = device_memory(kBytes);
    Recorder recorder;
    recorder.start();
    const int64_t before = nanoseconds_since_1970();
    ok(driver.orMemsetAsync(memory, 1, kBytes, stream));
    const auto seen = recorder.stop(stream);
    const int64_t after = nanoseconds_since_1970();
    const orActivity fill = only(of_kind(seen, orActivityMemset), "one fill").record;
    expect_equal(device, fill.device, "the device of the record");
    expect(fill.begin_nanoseconds <= fill.end_nanoseconds, "a beginning that is not after the end", "one that is");
    // The clocks of host and device are brought together; a tenth of a second is generous.
    constexpr int64_t kApart = 100'000'000;
    expect(before - kApart <= fill.begin_nanoseconds && fill.end_nanoseconds <= after + kApart,
           "a time between the launch and the stop, in nanoseconds since 1970, " + std::to_string(before) + " to " +
               std::to_string(after),
           std::to_string(fill.begin_nanoseconds) + " to " + std::to_string(fill.end_nanoseconds));
  }
}

void records_of_a_stream_follow() {
  need("activity");
  constexpr size_t kFills = 50;
  const orStream_t stream = new_stream();
  std::byte* const memory = device_memory(kBytes);
  Recorder recorder;
  recorder.start();
  const Busy busy(stream, milliseconds(20));
  for (size_t i = 1; i <= kFills; ++i) ok(driver.orMemsetAsync(memory, 0, i, stream));
  const auto fills = of_kind(recorder.stop(stream), orActivityMemset);
  busy.must_be_over("orActivityStop returned");
  expect_equal(kFills, static_cast<int64_t>(fills.size()), "the number of records of 50 fills behind a sleep");
  for (size_t i = 0; i < kFills; ++i) {
    expect_equal(static_cast<int64_t>(i + 1), static_cast<int64_t>(fills[i].record.bytes),
                 "the bytes of the fill that began next");
    expect(i == 0 || fills[i - 1].record.end_nanoseconds <= fills[i].record.begin_nanoseconds,
           "fills of a stream that begin when the one before has ended", "fill " + std::to_string(i) + " is earlier");
  }
}

void correlation_is_of_the_thread() {
  need("activity");
  const orStream_t stream = new_stream();
  std::byte* const memory = device_memory(kBytes);
  const auto queue = [&](size_t bytes) { ok(driver.orMemsetAsync(memory, 0, bytes, stream)); };
  Recorder recorder;
  recorder.start();
  queue(1);
  ok(driver.orActivitySetCorrelation(uint64_t{7} << 40));
  queue(2);
  orError_t on_thread = orSuccess;
  std::thread([&] { on_thread = driver.orMemsetAsync(memory, 0, 3, stream); }).join();
  ok(on_thread);
  queue(4);
  ok(driver.orActivitySetCorrelation(0));
  queue(5);
  const auto fills = of_kind(recorder.stop(stream), orActivityMemset);
  expect_equal(5, static_cast<int64_t>(fills.size()), "the number of records of five fills");
  const int64_t expected[] = {0, int64_t{7} << 40, 0, int64_t{7} << 40, 0};
  for (size_t i = 0; i < 5; ++i) {
    expect_equal(expected[i], static_cast<int64_t>(fills[i].record.correlation),
                 "the correlation of fill " + std::to_string(i));
  }
}

void nothing_after_the_stop() {
  need("activity");
  const orStream_t stream = new_stream();
  std::byte* const memory = device_memory(kBytes);
  Recorder recorder;
  recorder.start();
  ok(driver.orMemsetAsync(memory, 0, kBytes, stream));
  (void)recorder.stop(stream);
  const size_t count = recorder.count();
  ok(driver.orMemsetAsync(memory, 0, kBytes, stream));
  ok(driver.orStreamSynchronize(stream));
  std::this_thread::sleep_for(milliseconds(20));
  expect_equal(static_cast<int64_t>(count), static_cast<int64_t>(recorder.count()),
               "the number of records, some time after the stop");
  Recorder again;
  again.start();
  ok(driver.orMemsetAsync(memory, 0, kBytes, stream));
  (void)only(of_kind(again.stop(stream), orActivityMemset), "one fill, of a recording that was started later");
}

void one_recording_at_a_time() {
  need("activity");
  Recorder recorder;
  Recorder second;
  recorder.start();
  refused(orErrorInvalidValue, driver.orActivityStart([](const orActivity*, void*) {}, &second),
          "a recording while another runs");
  ok(driver.orActivityStop());
  refused(orErrorInvalidValue, driver.orActivityStart(nullptr, nullptr), "no function");
}

constexpr Check kChecks[] = {
    {"activity", "copies and fills are seen, with their bytes", "the memory tracks and bandwidths of torch.profiler",
     copies_and_fills_are_seen},
    {"activity", "kernels are seen, with their names", "the kernel tracks of torch.profiler", kernels_are_seen},
    {"activity", "device and time are right", "host and device share one time line in the trace",
     device_and_time_are_right},
    {"activity", "the records of a stream follow each other, and none is missing",
     "gaps in the trace are gaps of the device; a trace that ends early lies", records_of_a_stream_follow},
    {"activity", "work carries the correlation of its thread", "the arrow from an operator to its kernels",
     correlation_is_of_the_thread},
    {"activity", "nothing comes after the stop", "the profiler frees its buffers then", nothing_after_the_stop},
    {"activity", "there is one recording at a time", "a second profiler gets an exception, not half of the records",
     one_recording_at_a_time},
};

}  // namespace

std::span<const Check> activity_checks() { return kChecks; }

}  // namespace conformance
