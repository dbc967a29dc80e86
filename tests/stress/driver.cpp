// Many threads use the driver at once, on shared and private streams, while another device fails and is reset; all
// values are checked. Built with a sanitizer by tools/stress.sh.
//
// Usage: stress_driver [seconds]. Exits with 1 and one line on the first failure.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <random>
#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include "openreg.h"
#include "openreg_faults.h"
#include "openreg_host_kernels.h"

namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937;

constexpr int kDevices = 3;  // the last one fails over and over; values are checked on the others
constexpr int kFaulty = kDevices - 1;
constexpr int kWorkers = 6;
constexpr size_t kCareless = 2;  // threads that use the faulty device

struct Counts {
  std::atomic<uint64_t> pipelines{0};
  std::atomic<uint64_t> launched{0};
  std::atomic<uint64_t> destroyed{0};
  std::atomic<uint64_t> allocations{0};
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> faults{0};
};
Counts g_counts;

[[noreturn]] void give_up(const std::string& what, std::source_location where) {
  std::printf("stress: line %u: %s\n", where.line(), what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

void check(orError_t error, std::source_location where = std::source_location::current()) {
  if (error != orSuccess) give_up(std::string(orGetErrorName(error)) + ": " + orGetErrorDetail(), where);
}

// Checks that the call has failed with this error.
void expect(orError_t expected, orError_t error, std::source_location where = std::source_location::current()) {
  if (error != expected) {
    give_up(std::string("expected ") + orGetErrorName(expected) + ", got " + orGetErrorName(error), where);
  }
  ++g_counts.errors;
}

// Checks that the call has succeeded, or failed as it may on a device that another thread breaks and resets.
void allow(orError_t error, std::initializer_list<orError_t> allowed,
           std::source_location where = std::source_location::current()) {
  if (error == orSuccess || error == orErrorLaunchFailure || error == orErrorDeviceLost) return;
  for (const orError_t one : allowed) {
    if (error == one) return;
  }
  give_up(std::string(orGetErrorName(error)) + ": " + orGetErrorDetail(), where);
}

void require(bool condition, const char* what, std::source_location where = std::source_location::current()) {
  if (!condition) give_up(what, where);
}

size_t pick(Random& random, size_t low, size_t high) {
  return std::uniform_int_distribution<size_t>(low, high)(random);
}

// Launches body() as a kernel whose copies are counted. Every other closure stays the caller's, unless it is queued.
template <class Body>
orError_t launch(const char* name, orStream_t stream, size_t work_bytes, Body body) {
  orHostKernel kernel = {};
  kernel.name = name;
  kernel.run = [](void* closure, char*, size_t) { return (*static_cast<Body*>(closure))(); };
  kernel.destroy = [](void* closure) {
    delete static_cast<Body*>(closure);
    ++g_counts.destroyed;
  };
  kernel.work_bytes = work_bytes;
  static std::atomic<bool> stays{false};
  if (stays.exchange(!stays)) {
    kernel.closure = &body;
    kernel.keep = [](void* closure) -> void* {
      ++g_counts.launched;
      return new Body(*static_cast<Body*>(closure));
    };
  } else {
    kernel.closure = new Body(body);
    ++g_counts.launched;
  }
  return orLaunchHostKernel(&kernel, stream);
}

unsigned char* host_alias(void* pointer, size_t bytes) {
  void* alias = nullptr;
  check(orGetHostAlias(&alias, pointer, bytes));
  return static_cast<unsigned char*>(alias);
}

void check_bytes(const unsigned char* bytes, size_t count, unsigned char expected) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] != expected) {
      give_up("byte " + std::to_string(i) + " of " + std::to_string(count) + " is " + std::to_string(bytes[i]) +
                  ", expected " + std::to_string(expected),
              std::source_location::current());
    }
  }
}

void launch_add_one(orStream_t stream, void* pointer, size_t bytes) {
  check(launch("add_one", stream, 2 * bytes, [pointer, bytes] {
    unsigned char* const data = host_alias(pointer, bytes);
    for (size_t i = 0; i < bytes; ++i) ++data[i];
    return 0;
  }));
}

// Fills and adds on one stream; after an event, copies on another one, perhaps to another device, and to the host.
void pipeline(Random& random) {
  const size_t bytes = pick(random, 1, size_t{3} << 18);
  const int first = static_cast<int>(pick(random, 0, kFaulty - 1));
  const int second = static_cast<int>(pick(random, 0, kFaulty - 1));
  const auto value = static_cast<unsigned char>(pick(random, 0, 255));
  void *source = nullptr, *target = nullptr, *pinned = nullptr;
  orStream_t producer = nullptr, consumer = nullptr;
  orEvent_t filled = nullptr, copied = nullptr;

  check(orSetDevice(first));
  check(orMalloc(&source, bytes));
  check(orStreamCreate(&producer));
  check(orEventCreateWithFlags(&filled, pick(random, 0, 1) == 0 ? orEventDefault : orEventDisableTiming));
  check(orSetDevice(second));
  check(orMalloc(&target, bytes));
  check(orStreamCreate(&consumer));
  check(orEventCreate(&copied));
  check(orMallocHost(&pinned, bytes));
  g_counts.allocations += 3;

  if (pick(random, 0, 3) == 0) {
    orKernel_t sleep = nullptr;
    const uint64_t nanoseconds = pick(random, 0, 200'000);
    check(orGetKernel(&sleep, "sleep"));
    check(orLaunchKernel(sleep, &nanoseconds, sizeof(nanoseconds), producer));
  }
  check(orMemsetAsync(source, value, bytes, producer));
  launch_add_one(producer, source, bytes);
  check(orEventRecord(filled, producer));
  check(orStreamWaitEvent(consumer, filled));
  check(orMemcpyAsync(target, source, bytes, orMemcpyDeviceToDevice, consumer));
  launch_add_one(consumer, target, bytes);
  check(orMemcpyAsync(pinned, target, bytes, orMemcpyDeviceToHost, consumer));
  check(orEventRecord(copied, consumer));
  check(orEventSynchronize(copied));
  check_bytes(static_cast<unsigned char*>(pinned), bytes, static_cast<unsigned char>(value + 2));

  std::vector<unsigned char> pageable(bytes, value);
  check(orMemcpyAsync(source, pageable.data(), bytes, orMemcpyHostToDevice, producer));
  std::memset(pageable.data(), value + 1, bytes);
  check(orMemcpyAsync(pageable.data(), source, bytes, orMemcpyDeviceToHost, producer));
  check_bytes(pageable.data(), bytes, value);

  check(orEventDestroy(filled));
  check(orEventDestroy(copied));
  check(orStreamDestroy(producer));
  check(orStreamDestroy(consumer));
  check(orFree(source));
  check(orFree(target));
  check(orFreeHost(pinned));
  ++g_counts.pipelines;
}

// Many tiny kernels on a stream that all threads share: each must run once.
void flood(Random& random, const std::vector<orStream_t>& shared) {
  const orStream_t stream = shared[pick(random, 0, shared.size() - 1)];
  const size_t kernels = pick(random, 1, 3000);
  const auto ran = std::make_shared<std::atomic<size_t>>(0);
  for (size_t i = 0; i < kernels; ++i) {
    check(launch("count", stream, 0, [ran] {
      ++*ran;
      return 0;
    }));
  }
  check(orStreamSynchronize(stream));
  require(*ran == kernels, "not every kernel ran once");
}

// Allocations that are alive together never overlap, and every wrong pointer has its error.
void allocate(Random& random) {
  check(orSetDevice(static_cast<int>(pick(random, 0, kFaulty - 1))));
  struct Piece {
    void* pointer;
    size_t bytes;
  };
  std::vector<Piece> pieces(pick(random, 1, 20));
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].bytes = pick(random, 1, i == 0 ? size_t{4} << 20 : 20'000);
    check(orMalloc(&pieces[i].pointer, pieces[i].bytes));
    check(orMemset(pieces[i].pointer, static_cast<int>(i), pieces[i].bytes));
    ++g_counts.allocations;
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto [pointer, bytes] = pieces[i];
    orPointerAttributes attributes = {};
    check(orPointerGetAttributes(&attributes, static_cast<std::byte*>(pointer) + bytes - 1));
    require(attributes.base == pointer && attributes.size == bytes, "wrong attributes");
    std::vector<unsigned char> read(bytes);
    check(orMemcpy(read.data(), pointer, bytes, orMemcpyDeviceToHost));
    check_bytes(read.data(), bytes, static_cast<unsigned char>(i));
    expect(orErrorOutOfRange, orMemset(pointer, 0, bytes + 1));
    if (bytes > 1) expect(orErrorMisalignedPointer, orFree(static_cast<std::byte*>(pointer) + 1));
    check(orFree(pointer));
  }
}

// One event, recorded and queried by all threads.
void share_event(Random& random, orEvent_t event, const std::vector<orStream_t>& shared) {
  for (int i = 0; i < 100; ++i) {
    const orStream_t stream = shared[pick(random, 0, shared.size() - 1)];
    int device = 0;
    check(orStreamGetDevice(stream, &device));
    if (device == 0) check(orEventRecord(event, stream));
    check(orStreamWaitEvent(shared[pick(random, 0, shared.size() - 1)], event));
    if (const orError_t error = orEventQuery(event); error != orErrorNotReady) check(error);
    double milliseconds = 0;
    if (const orError_t error = orEventElapsedTime(&milliseconds, event, event); error != orErrorNotReady) {
      if (error == orErrorInvalidValue) continue;  // not recorded yet
      check(error);
    }
  }
  check(orEventSynchronize(event));
}

void work(unsigned seed, Clock::time_point end, orEvent_t event, const std::vector<orStream_t>& shared) {
  Random random(seed);
  while (Clock::now() < end) {
    switch (pick(random, 0, 4)) {
      case 0:
        flood(random, shared);
        break;
      case 1:
        allocate(random);
        break;
      case 2:
        share_event(random, event, shared);
        break;
      default:
        pipeline(random);
    }
  }
}

// Uses the faulty device, and ignores the errors that this may cause.
void suffer(unsigned number, const std::atomic<bool>& stop) {
  Random random(100 + number);
  check(orSetDevice(kFaulty));
  while (!stop) {
    void* pointer = nullptr;
    orStream_t stream = nullptr;
    orEvent_t event = nullptr;
    allow(orStreamCreate(&stream), {});
    allow(orEventCreate(&event), {});
    allow(orMalloc(&pointer, pick(random, kCareless, 100'000)), {orErrorMemoryAllocation});
    // A reset may have destroyed each of them at any time; a null stream is the default stream.
    for (int i = 0; i < 10; ++i) {
      allow(launch("suffer", stream, pick(random, 0, size_t{2} << 20), [] { return 0; }), {orErrorInvalidHandle});
      if (pointer != nullptr) {
        // A byte of this thread's own: memory allocated during a reset may be given to another thread after it.
        char* const own = static_cast<char*>(pointer) + number;
        allow(orMemsetAsync(own, 1, 1, stream), {orErrorInvalidHandle, orErrorFreedPointer, orErrorOutOfRange});
      }
      if (event != nullptr) {
        allow(orEventRecord(event, stream), {orErrorInvalidHandle});
        allow(orStreamWaitEvent(nullptr, event), {orErrorInvalidHandle});
        allow(orEventQuery(event), {orErrorInvalidHandle, orErrorNotReady});
      }
    }
    allow(orStreamSynchronize(stream), {orErrorInvalidHandle});
    if (event != nullptr) allow(orEventDestroy(event), {orErrorInvalidHandle});
    if (stream != nullptr) allow(orStreamDestroy(stream), {orErrorInvalidHandle});
    // Not freed: after a reset the address may be another thread's. The next reset frees it.
  }
}

void break_and_reset(unsigned seed, const std::atomic<bool>& stop) {
  Random random(seed);
  check(orSetDevice(kFaulty));
  while (!stop) {
    const auto fault = static_cast<orFault_t>(pick(random, 0, 3));
    check(orInjectFault(fault, kFaulty, static_cast<unsigned>(pick(random, 1, 3))));
    ++g_counts.faults;
    std::this_thread::sleep_for(std::chrono::microseconds(pick(random, 0, 3000)));
    if (fault == orFaultKernel || fault == orFaultDeviceLost) allow(orDeviceSynchronize(), {});
    check(orDeviceReset());
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    check(orMemGetInfo(&free_bytes, &total_bytes));
  }
}

// Leaves work queued, some of it running, so that the process ends with it.
void leave_work_queued() {
  check(orSetDevice(0));
  orKernel_t sleep = nullptr;
  check(orGetKernel(&sleep, "sleep"));
  for (int i = 0; i < 3; ++i) {
    orStream_t stream = nullptr;
    orEvent_t event = nullptr;
    check(orStreamCreate(&stream));
    check(orEventCreate(&event));
    const uint64_t an_hour = 3'600'000'000'000;
    check(orLaunchKernel(sleep, &an_hour, sizeof(an_hour), stream));
    check(orEventRecord(event, stream));
    check(orStreamWaitEvent(nullptr, event));
    for (int j = 0; j < 100; ++j) check(launch("never", stream, 0, [] { return 1; }));
  }
}

void run(double seconds) {
  std::vector<orStream_t> shared;
  for (int device = 0; device < kFaulty; ++device) {
    check(orSetDevice(device));
    for (int i = 0; i < 2; ++i) check(orStreamCreate(&shared.emplace_back()));
  }
  check(orSetDevice(0));
  orEvent_t event = nullptr;
  check(orEventCreate(&event));

  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::atomic<bool> stop{false};
  std::vector<std::thread> careless;
  for (unsigned i = 0; i < kCareless; ++i) careless.emplace_back([i, &stop] { suffer(i, stop); });
  std::thread breaker([&] { break_and_reset(200, stop); });
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < kWorkers; ++i) workers.emplace_back([&, i] { work(i, end, event, shared); });
  for (std::thread& worker : workers) worker.join();
  stop = true;
  // The careless threads may wait for a hanging kernel, which only a reset ends: resets go on until they are joined.
  check(orSetDevice(kFaulty));
  breaker.join();
  check(orDeviceReset());
  std::atomic<bool> joined{false};
  std::thread last_resets([&joined] {
    check(orSetDevice(kFaulty));
    while (!joined) {
      check(orDeviceReset());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (std::thread& thread : careless) thread.join();
  joined = true;
  last_resets.join();

  for (int device = 0; device < kDevices; ++device) {
    check(orSetDevice(device));
    check(orDeviceReset());
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    check(orMemGetInfo(&free_bytes, &total_bytes));
    require(free_bytes == total_bytes, "memory was lost");
  }
  require(g_counts.launched == g_counts.destroyed, "not every kernel was destroyed");
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  setenv("OPENREG_DEVICE_COUNT", std::to_string(kDevices).c_str(), 1);
  setenv("OPENREG_DEVICE_MEMORY", "512M", 1);
  const char* const mode = std::getenv("OPENREG_LAUNCH");
  run(seconds);
  std::printf(
      "stress: mode %s, %g s, %d threads: %lu pipelines, %lu kernels, %lu allocations, %lu expected errors, %lu "
      "faults with resets; all values right\n",
      mode != nullptr ? mode : "auto", seconds, kWorkers + 3, g_counts.pipelines.load(), g_counts.launched.load(),
      g_counts.allocations.load(), g_counts.errors.load(), g_counts.faults.load());
  std::fflush(stdout);
  leave_work_queued();
  return 0;
}
