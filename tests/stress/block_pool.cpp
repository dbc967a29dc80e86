// Many threads allocate, use and free blocks of the pool on several streams and devices. Every use writes its own
// pattern, and a kernel checks in stream order that it is still there, which reveals a block that was reused too early.
//
// Usage: stress_block_pool [seconds]. Exits with 1 and one line on the first failure.
#include "runtime/block_pool.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include "openreg_faults.h"
#include "openreg_host_kernels.h"

namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937;
using openreg::BlockPool;

constexpr int kDevices = 2;
constexpr int kStreams = 4;  // for each device
constexpr int kThreads = 8;

std::atomic<uint64_t> g_allocations{0};
std::atomic<uint64_t> g_recorded{0};
std::atomic<uint64_t> g_refused{0};
std::atomic<uint64_t> g_wrong{0};

void check(orError_t error, std::source_location where = std::source_location::current()) {
  if (error == orSuccess) return;
  std::printf("stress: line %u: %s: %s\n", where.line(), orGetErrorName(error), orGetErrorDetail());
  std::fflush(stdout);
  std::_Exit(1);
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::printf("stress: %s\n", what);
  std::fflush(stdout);
  std::_Exit(1);
}

size_t pick(Random& random, size_t low, size_t high) {
  return std::uniform_int_distribution<size_t>(low, high)(random);
}

struct Tensor {
  void* address = nullptr;
  size_t bytes = 0;
  unsigned char pattern = 0;
  int device = 0;
  orStream_t stream = nullptr;
};

template <class Body>
void launch(orStream_t stream, Body body) {
  orHostKernel kernel = {};
  kernel.name = "pattern";
  kernel.run = [](void* closure, char*, size_t) {
    (*static_cast<Body*>(closure))();
    return 0;
  };
  kernel.destroy = [](void* closure) { delete static_cast<Body*>(closure); };
  kernel.closure = new Body(body);
  check(orLaunchHostKernel(&kernel, stream));
}

// Launches a kernel that checks the pattern, but only at the ends: one memset wrote all bytes between.
void look(const Tensor& tensor, orStream_t stream) {
  launch(stream, [tensor] {
    void* alias = nullptr;
    check(orGetHostAlias(&alias, tensor.address, tensor.bytes));
    const auto* bytes = static_cast<const unsigned char*>(alias);
    if (bytes[0] != tensor.pattern || bytes[tensor.bytes - 1] != tensor.pattern) ++g_wrong;
  });
}

struct Shared {
  BlockPool pool{kDevices};
  orStream_t streams[kDevices][kStreams];
};

bool allocate(Shared& shared, Random& random, Tensor* tensor) {
  tensor->device = static_cast<int>(pick(random, 0, kDevices - 1));
  tensor->stream = shared.streams[tensor->device][pick(random, 0, kStreams - 1)];
  tensor->bytes = pick(random, 0, 9) == 0 ? pick(random, 1, size_t{14} << 20) : pick(random, 1, 100'000);
  tensor->pattern = static_cast<unsigned char>(pick(random, 1, 255));
  const size_t rounded = (tensor->bytes + 511) / 512 * 512;
  const orError_t error = shared.pool.allocate(&tensor->address, tensor->device, tensor->stream, rounded, tensor->bytes,
                                               [] { return openreg::PoolSettings{}; });
  if (error == orErrorMemoryAllocation) {
    ++g_refused;
    return false;
  }
  check(error);
  ++g_allocations;
  check(orMemsetAsync(tensor->address, tensor->pattern, tensor->bytes, tensor->stream));
  return true;
}

// Uses the tensor on another stream as well, after an event, which is what record_stream is for.
void use_elsewhere(Shared& shared, Random& random, const Tensor& tensor) {
  const int device = static_cast<int>(pick(random, 0, kDevices - 1));
  orStream_t other = shared.streams[device][pick(random, 0, kStreams - 1)];
  orEvent_t written = nullptr;
  check(orSetDevice(tensor.device));
  check(orEventCreateWithFlags(&written, orEventDisableTiming));
  check(orEventRecord(written, tensor.stream));
  check(orStreamWaitEvent(other, written));
  check(orEventDestroy(written));
  if (pick(random, 0, 7) == 0) {
    orKernel_t sleep = nullptr;
    const uint64_t nanoseconds = pick(random, 0, 300'000);
    check(orGetKernel(&sleep, "sleep"));
    check(orLaunchKernel(sleep, &nanoseconds, sizeof(nanoseconds), other));
  }
  look(tensor, other);
  require(shared.pool.record_stream(tensor.address, other), "a block in use could not be recorded");
  ++g_recorded;
}

void free(Shared& shared, const Tensor& tensor) {
  look(tensor, tensor.stream);
  orError_t error = orSuccess;
  const BlockPool::Freed freed = shared.pool.free(tensor.address, &error);
  check(error);
  require(freed.found && freed.device == tensor.device && freed.requested == tensor.bytes, "a wrong block was freed");
}

void work(Shared& shared, unsigned seed, Clock::time_point end) {
  Random random(seed);
  std::vector<Tensor> mine;
  while (Clock::now() < end) {
    Tensor tensor;
    if (mine.size() < 40 && allocate(shared, random, &tensor)) mine.push_back(tensor);
    if (!mine.empty() && pick(random, 0, 2) == 0) use_elsewhere(shared, random, mine[pick(random, 0, mine.size() - 1)]);
    if (!mine.empty() && pick(random, 0, 1) == 0) {
      std::swap(mine[pick(random, 0, mine.size() - 1)], mine.back());
      free(shared, mine.back());
      mine.pop_back();
    }
    if (pick(random, 0, 200) == 0) check(shared.pool.release_cached(static_cast<int>(pick(random, 0, kDevices - 1))));
    if (pick(random, 0, 100) == 0) {
      check(orInjectFault(orFaultAllocation, static_cast<int>(pick(random, 0, kDevices - 1)), 1));
    }
    if (pick(random, 0, 300) == 0) {
      // A snapshot while all other threads continue: the blocks of a segment follow each other without a gap.
      const std::vector<openreg::Block> blocks = shared.pool.snapshot(0);
      for (size_t i = 1; i < blocks.size(); ++i) {
        if (blocks[i].previous == nullptr) continue;
        require(blocks[i - 1].address + blocks[i - 1].bytes == blocks[i].address, "a segment has a gap");
      }
    }
  }
  for (const Tensor& tensor : mine) free(shared, tensor);
}

void require_nothing_left(Shared& shared, int device) {
  const openreg::PoolStatistics statistics = shared.pool.statistics(device);
  for (const openreg::BlockFigures& figures : {statistics.all, statistics.small, statistics.large}) {
    for (const openreg::Figure& figure :
         {figures.allocations, figures.segments, figures.active, figures.inactive_split, figures.allocated_bytes,
          figures.reserved_bytes, figures.active_bytes, figures.inactive_split_bytes, figures.requested_bytes}) {
      require(figure.current == 0 && figure.increased == figure.decreased, "a figure does not go back to 0");
    }
  }
  require(shared.pool.snapshot(device).empty(), "blocks are left");
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check(orSetDevice(device));
  check(orMemGetInfo(&free_bytes, &total_bytes));
  require(free_bytes == total_bytes, "memory was lost");
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  setenv("OPENREG_DEVICE_COUNT", std::to_string(kDevices).c_str(), 1);
  setenv("OPENREG_DEVICE_MEMORY", "384M", 1);  // so little that the cache is emptied and some requests are refused
  Shared shared;
  for (int device = 0; device < kDevices; ++device) {
    check(orSetDevice(device));
    for (orStream_t& stream : shared.streams[device]) check(orStreamCreate(&stream));
  }
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back([&shared, i, end] { work(shared, i, end); });
  for (std::thread& thread : threads) thread.join();
  for (int device = 0; device < kDevices; ++device) {
    check(shared.pool.release_cached(device));
    require_nothing_left(shared, device);
  }
  require(g_wrong == 0, "a block was handed out while it was in use");
  const char* const mode = std::getenv("OPENREG_LAUNCH");
  std::printf(
      "stress: block pool, mode %s, %g s, %d threads: %lu allocations, %lu uses on another stream, %lu refused; all "
      "values right, nothing left\n",
      mode != nullptr ? mode : "auto", seconds, kThreads, g_allocations.load(), g_recorded.load(), g_refused.load());
  return 0;
}
