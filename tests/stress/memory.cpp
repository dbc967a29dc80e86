// A host that runs out of memory: each allocation of the driver and the block pool fails once, in a process of its own.
// The call that needed it must report that, nothing may be lost, and everything must work afterwards. Built with the
// address sanitizer, each process also checks for leaks at its end.
//
// Usage: stress_memory. Exits with 1 and one line on the first failure.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <source_location>

#include "openreg.h"
#include "openreg_faults.h"
#include "openreg_host_kernels.h"
#include "runtime/block_pool.h"

namespace {

// Allocations until the only one that fails. Negative: none fails.
std::atomic<long> g_until_failure{-1};
std::atomic<bool> g_failed{false};

bool fails_now() {
  if (g_until_failure.load() < 0 || g_until_failure.fetch_sub(1) != 0) return false;
  g_failed = true;
  return true;
}

}  // namespace

// From here on, the driver, the pool and the C++ library allocate with these functions.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return fails_now() ? nullptr : std::malloc(bytes); }
void* operator new(size_t bytes) {
  void* const memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

extern "C" void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (fails_now()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

extern "C" int mprotect(void* address, size_t bytes, int protection) noexcept {
  if (fails_now()) {
    errno = ENOMEM;
    return -1;
  }
  return static_cast<int>(syscall(SYS_mprotect, address, bytes, protection));
}

namespace {

using openreg::BlockPool;

std::atomic<uint64_t> g_made{0};
std::atomic<uint64_t> g_destroyed{0};
bool g_may_fail = false;

[[noreturn]] void give_up(const char* what, std::source_location where) {
  std::printf("stress: line %u: %s\n", where.line(), what);
  std::fflush(stdout);
  std::_Exit(1);
}

void require(bool condition, const char* what, std::source_location where = std::source_location::current()) {
  if (!condition) give_up(what, where);
}

// Whether the call has succeeded. Once an allocation has failed on request, the call may report that, but nothing else.
bool ok(orError_t error, std::source_location where = std::source_location::current()) {
  const bool has_no_memory = error == orErrorMemoryAllocation || error == orErrorInitialization;
  if (error != orSuccess && !(has_no_memory && g_may_fail && g_failed)) give_up(orGetErrorDetail(), where);
  return error == orSuccess;
}

constexpr size_t kSmall = 100'000;
constexpr size_t kLarge = size_t{40} << 20;  // more than the driver commits at first
constexpr int kEvents = 70;  // more than fit into one chunk of a table
constexpr int kBlocks = 12;

void launch(orStream_t stream) {
  orHostKernel kernel = {};
  kernel.name = "nothing";
  kernel.run = [](void*, char*, size_t) { return 0; };
  kernel.destroy = [](void* closure) {
    delete static_cast<int*>(closure);
    ++g_destroyed;
  };
  kernel.keep = [](void*) -> void* {
    int* const closure = new (std::nothrow) int(0);
    if (closure != nullptr) ++g_made;
    return closure;
  };
  (void)ok(orLaunchHostKernel(&kernel, stream));
}

// Calls every function of the driver that allocates, in its first call or later.
void use_driver() {
  static const std::array<char, kSmall> pageable{};
  void *small = nullptr, *large = nullptr, *pinned = nullptr;
  orStream_t stream = nullptr, other = nullptr;
  std::array<orEvent_t, kEvents> events{};
  orKernel_t sleep = nullptr;
  const uint64_t nanoseconds = 2'000'000;
  // The first call that needs the driver starts it; if that fails, the next one does.
  if (!ok(orSetDevice(1))) (void)ok(orSetDevice(1));
  (void)ok(orMalloc(&small, kSmall));
  (void)ok(orMalloc(&large, kLarge));
  (void)ok(orMallocHost(&pinned, kSmall));
  (void)ok(orStreamCreate(&stream));
  (void)ok(orStreamCreate(&other));
  for (orEvent_t& event : events) (void)ok(orEventCreate(&event));
  (void)ok(orGetKernel(&sleep, "sleep"));
  if (stream != nullptr && ok(orLaunchKernel(sleep, &nanoseconds, sizeof(nanoseconds), stream))) {
    launch(stream);
    if (small != nullptr) (void)ok(orMemcpyAsync(small, pageable.data(), kSmall, orMemcpyHostToDevice, stream));
    if (small != nullptr && pinned != nullptr) {
      (void)ok(orMemcpyAsync(pinned, small, kSmall, orMemcpyDeviceToHost, stream));
    }
    if (events[0] != nullptr && other != nullptr && ok(orEventRecord(events[0], stream))) {
      (void)ok(orStreamWaitEvent(other, events[0]));
    }
  }
  if (large != nullptr) (void)ok(orMemset(large, 1, kLarge));
  (void)ok(orDeviceSynchronize());
  for (orEvent_t event : events) {
    if (event != nullptr) require(ok(orEventDestroy(event)), "an event could not be destroyed");
  }
  if (stream != nullptr) require(ok(orStreamDestroy(stream)), "a stream could not be destroyed");
  if (other != nullptr) require(ok(orStreamDestroy(other)), "a stream could not be destroyed");
  require(ok(orFree(small)) && ok(orFree(large)) && ok(orFreeHost(pinned)), "memory could not be freed");
}

// Blocks of all sizes, split and joined, with and without other streams.
void use_pool(BlockPool& pool, orStream_t stream, orStream_t other) {
  std::array<void*, kBlocks> blocks{};
  orKernel_t sleep = nullptr;
  const uint64_t nanoseconds = 2'000'000;
  (void)ok(orGetKernel(&sleep, "sleep"));
  (void)ok(orLaunchKernel(sleep, &nanoseconds, sizeof(nanoseconds), other));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t bytes = (i % 3 == 2 ? size_t{3} << 20 : size_t{512}) * (i + 1);
    try {
      (void)ok(pool.allocate(&blocks[i], 1, stream, bytes, bytes, [] { return openreg::PoolSettings{}; }));
      if (blocks[i] != nullptr && i % 2 == 0)
        require(pool.record_stream(blocks[i], other), "a block in use is unknown");
    } catch (const std::bad_alloc&) {
      require(g_may_fail && g_failed, "an exception without a cause");
    }
  }
  for (const size_t i : {0, 2, 1, 3, 5, 4, 8, 7, 6, 11, 10, 9}) {
    orError_t error = orSuccess;
    if (blocks[i] == nullptr) continue;
    require(pool.free(blocks[i], &error).found, "a block was lost");
    (void)ok(error);
  }
  try {
    (void)ok(pool.release_cached(1));
  } catch (const std::bad_alloc&) {
    require(g_may_fail && g_failed, "an exception without a cause");
  }
}

void require_nothing_left(BlockPool& pool) {
  (void)ok(pool.release_cached(1));
  require(pool.snapshot(1).empty(), "blocks are left");
  const openreg::BlockFigures figures = pool.statistics(1).all;
  require(figures.reserved_bytes.current == 0 && figures.active_bytes.current == 0, "a figure does not go back to 0");
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  require(ok(orMemGetInfo(&free_bytes, &total_bytes)) && free_bytes == total_bytes, "memory was lost");
  require(g_made == g_destroyed, "not every closure was destroyed");
}

// Runs with this allocation failing, and returns the exit status: 2 if there are fewer allocations than that.
int fail_at(long allocation) {
  BlockPool pool(2);
  orStream_t stream = nullptr;
  orStream_t other = nullptr;
  g_may_fail = true;
  g_until_failure = allocation;
  use_driver();
  const long left = g_until_failure.exchange(-1);  // no failures while the streams of the pool are created
  if (!ok(orSetDevice(1)) || !ok(orStreamCreate(&stream)) || !ok(orStreamCreate(&other))) return 1;
  g_until_failure = left;
  use_pool(pool, stream, other);
  g_until_failure = -1;
  g_may_fail = false;
  require_nothing_left(pool);
  use_driver();
  use_pool(pool, stream, other);
  require_nothing_left(pool);
  return g_failed ? 0 : 2;
}

}  // namespace

int main() {
  setenv("OPENREG_DEVICE_COUNT", "2", 1);
  setenv("OPENREG_DEVICE_MEMORY", "512M", 1);
  long allocation = 0;
  for (int status = 0; status == 0; ++allocation) {
    const pid_t child = fork();
    if (child == 0) return fail_at(allocation);
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) break;
    if (status != 0) {
      std::printf("stress: with allocation %ld failing the process ended with status 0x%x\n", allocation, status);
      return 1;
    }
  }
  const char* const mode = std::getenv("OPENREG_LAUNCH");
  std::printf("stress: memory, mode %s: %ld allocations failed, one in each process; nothing lost\n",
              mode != nullptr ? mode : "auto", allocation);
  return allocation > 50 ? 0 : 1;  // otherwise the allocations are no longer seen
}
