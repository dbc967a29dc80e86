// Functions of the host in the order of a stream: orLaunchHostFunction. Which thread calls them is the driver's affair.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace conformance {
namespace {

void launch_host(orStream_t stream, void (*function)(void*), void* user, Where where = Where::current()) {
  need("host functions");
  offered(driver.orLaunchHostFunction(stream, function, user), "host functions", where);
}

struct Buffers {
  std::byte* in;
  std::byte* out;
  size_t bytes;
};

void complement(void* user) {
  const auto& own = *static_cast<Buffers*>(user);
  for (size_t i = 0; i < own.bytes; ++i) own.out[i] = ~own.in[i];
}

// Device to host, the function, and back to the device.
void between_two_copies() {
  need("host functions");
  constexpr size_t kBytes = 4096;
  const orStream_t stream = new_stream();
  auto expected = pattern(kBytes, 3);
  std::byte* const device = device_memory(kBytes);
  upload(device, expected);
  Buffers buffers{static_cast<std::byte*>(pinned(kBytes)), static_cast<std::byte*>(pinned(kBytes)), kBytes};
  std::memset(buffers.in, 0, kBytes);
  std::memset(buffers.out, 0, kBytes);
  const Busy busy(stream);
  ok(driver.orMemcpyAsync(buffers.in, device, kBytes, orMemcpyDeviceToHost, stream));
  launch_host(stream, complement, &buffers);
  ok(driver.orMemcpyAsync(device, buffers.out, kBytes, orMemcpyHostToDevice, stream));
  ok(driver.orStreamSynchronize(stream));
  for (std::byte& byte : expected) byte = ~byte;
  expect_bytes(expected, download(device, kBytes), "bytes that a host function changed between two copies");
}

void does_not_wait() {
  need("host functions");
  const orStream_t stream = new_stream();
  const Busy busy(stream);
  busy.need_asynchronous("orLaunchKernel");
  launch_host(stream, [](void*) {}, nullptr);
  busy.need_asynchronous("orLaunchHostFunction");
}

void is_waited_for() {
  std::atomic<bool> returned{false};
  const auto function = [](void* user) {
    std::this_thread::sleep_for(milliseconds(50));
    static_cast<std::atomic<bool>*>(user)->store(true);
  };
  for (const bool by_event : {false, true}) {
    returned = false;
    const orStream_t stream = new_stream();
    const orEvent_t event = new_event();
    launch_host(stream, function, &returned);
    ok(driver.orEventRecord(event, stream));
    ok(by_event ? driver.orEventSynchronize(event) : driver.orStreamSynchronize(stream));
    expect(returned,
           std::string("a host function that has returned when ") +
               (by_event ? "orEventSynchronize" : "orStreamSynchronize") + " returns",
           "it has not");
  }
}

struct Order {
  std::vector<int> seen;
  std::vector<std::pair<Order*, int>> users;
};

void each_once_in_order() {
  constexpr int kFunctions = 1000;
  const orStream_t stream = new_stream();
  Order order;
  order.users.reserve(kFunctions);
  for (int i = 0; i < kFunctions; ++i) {
    order.users.emplace_back(&order, i);
    launch_host(
        stream,
        [](void* user) {
          const auto& [all, number] = *static_cast<std::pair<Order*, int>*>(user);
          all->seen.push_back(number);
        },
        &order.users.back());
  }
  ok(driver.orStreamSynchronize(stream));
  expect_equal(kFunctions, static_cast<int64_t>(order.seen.size()), "how many of 1000 host functions were called");
  for (int i = 0; i < kFunctions; ++i) {
    expect_equal(i, order.seen[static_cast<size_t>(i)], "the number of the host function that was called next");
  }
}

void wrong_ones_are_refused() {
  need("host functions");
  const orStream_t stream = new_stream();
  const orError_t answer = driver.orLaunchHostFunction(stream, nullptr, nullptr);
  if (answer == orErrorNotSupported) offered(answer, "host functions");
  refused(orErrorInvalidValue, answer, "no function");
  ok(driver.orStreamDestroy(stream));
  std::atomic<bool> called{false};
  const auto function = [](void* user) { static_cast<std::atomic<bool>*>(user)->store(true); };
  refused(orErrorInvalidHandle, driver.orLaunchHostFunction(stream, function, &called), "a stream that was destroyed");
  ok(driver.orDeviceSynchronize());
  expect(!called, "no call of a function that was refused", "a call");
}

void not_after_a_failure() {
  need("host functions");
  if (!driver.orInjectFault.exists()) not_offered("faults on request: the library has no orInjectFault");
  const orStream_t stream = new_stream();
  orKernel_t kernel = nullptr;
  const uint64_t nanoseconds = 0;
  std::atomic<bool> called{false};
  offered(driver.orGetKernel(&kernel, "sleep"), "kernels that are built in");
  offered(driver.orInjectFault(orFaultKernel, 0, 1), "faults on request");
  const auto function = [](void* user) { static_cast<std::atomic<bool>*>(user)->store(true); };
  // A driver that runs the kernel before its launch returns may report the failure there.
  if (driver.orLaunchKernel(kernel, &nanoseconds, sizeof(nanoseconds), stream) == orSuccess) {
    const orError_t answer = driver.orLaunchHostFunction(stream, function, &called);
    if (answer != orErrorLaunchFailure) offered(answer, "host functions");
  }
  refused(orErrorLaunchFailure, driver.orStreamSynchronize(stream), "a kernel that failed");
  expect(!called, "no call of a host function behind a kernel that failed", "a call");
}

constexpr Check kChecks[] = {
    {"host functions", "a host function runs between the copies around it",
     "code that reads a result on the host and goes on, without a wait in the program", between_two_copies},
    {"host functions", "launching a host function does not wait", "the thread of the program launches on",
     does_not_wait},
    {"host functions", "streams and events wait for a host function",
     "what the function has written is read after synchronize()", is_waited_for},
    {"host functions", "each host function is called once, in order",
     "callbacks that release what the work before has used", each_once_in_order},
    {"host functions", "wrong host functions are refused", "a mistake in the backend becomes an exception",
     wrong_ones_are_refused},
    {"host functions", "no host function is called after a failure", "nothing reads a result that is not there",
     not_after_a_failure},
};

}  // namespace

std::span<const Check> host_function_checks() { return kChecks; }

}  // namespace conformance
