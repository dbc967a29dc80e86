// Many threads at once, as the autograd engine and data loaders are.
#include <functional>
#include <future>
#include <vector>

#include "check.h"

namespace conformance {
namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 50;
constexpr size_t kBytes = 65537;

void on_all_threads(const std::function<void(int)>& body) {
  std::vector<std::future<void>> threads;
  for (int i = 0; i < kThreads; ++i) threads.push_back(std::async(std::launch::async, body, i));
  for (auto& thread : threads) thread.get();
}

// Brings bytes to the device, moves them there, and back.
void move_bytes(orStream_t stream, unsigned seed) {
  std::byte* const a = device_memory(kBytes);
  std::byte* const b = device_memory(kBytes);
  const auto sent = pattern(kBytes, seed);
  std::vector<std::byte> received(kBytes);
  ok(driver.orMemcpyAsync(a, sent.data(), kBytes, orMemcpyHostToDevice, stream));
  ok(driver.orMemcpyAsync(b, a, kBytes, orMemcpyDeviceToDevice, stream));
  ok(driver.orMemcpyAsync(received.data(), b, kBytes, orMemcpyDeviceToHost, stream));
  expect_bytes(sent, received, "what one of several threads copied");
  ok(driver.orFree(a));
  ok(driver.orFree(b));
}

void own_streams() {
  on_all_threads([](int thread) {
    ok(driver.orSetDevice(thread % device_count()));
    orStream_t stream = new_stream();
    for (int round = 0; round < kRounds; ++round) move_bytes(stream, static_cast<unsigned>(thread * kRounds + round));
    ok(driver.orStreamDestroy(stream));
  });
}

void one_stream() {
  orStream_t stream = new_stream();
  on_all_threads([stream](int thread) {
    for (int round = 0; round < kRounds; ++round) move_bytes(stream, static_cast<unsigned>(thread * kRounds + round));
  });
}

void one_event() {
  orStream_t stream = new_stream();
  orEvent_t event = new_event();
  on_all_threads([=](int thread) {
    for (int round = 0; round < kRounds * 10; ++round) {
      if (thread % 2 == 0) {
        ok(driver.orEventRecord(event, stream));
        ok(driver.orStreamWaitEvent(stream, event));
      } else {
        const orError_t answer = driver.orEventQuery(event);
        if (answer != orErrorNotReady) ok(answer);
        ok(driver.orEventSynchronize(event));
      }
    }
  });
}

constexpr Check kChecks[] = {
    {"threads", "threads with streams of their own", "a backward pass has a thread for each device", own_streams},
    {"threads", "threads that share a stream", "all threads begin with the default stream", one_stream},
    {"threads", "threads that share an event", "caching allocators poll the events of other threads", one_event},
};

}  // namespace

std::span<const Check> thread_checks() { return kChecks; }

}  // namespace conformance
