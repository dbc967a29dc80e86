// What only a device that runs host code can offer: openreg_host_kernels.h.
#include <atomic>
#include <cstring>

#include "check.h"

namespace conformance {
namespace {

struct Closure {
  std::byte* device = nullptr;
  std::atomic<int> runs{0};
  std::atomic<int> destroyed{0};
};

void need_host_kernels() {
  if (!driver.orLaunchHostKernel.exists()) not_offered("host code as a kernel: the library has no orLaunchHostKernel");
}

int run(void* closure, char*, size_t) {
  auto& own = *static_cast<Closure*>(closure);
  void* alias = nullptr;
  if (driver.orGetHostAlias(&alias, own.device, 1) != orSuccess) return 1;
  *static_cast<std::byte*>(alias) = std::byte{42};
  ++own.runs;
  return 0;
}

void destroy(void* closure) { ++static_cast<Closure*>(closure)->destroyed; }

orHostKernel kernel_of(Closure* closure) { return {"conformance", run, destroy, closure, 1, nullptr}; }

void alias_shows_the_bytes() {
  if (!driver.orGetHostAlias.exists()) not_offered("a host view of device memory: the library has no orGetHostAlias");
  std::byte* const device = device_memory(100);
  upload(device, pattern(100, 1));
  void* alias = nullptr;
  offered(driver.orGetHostAlias(&alias, device, 100), "a host view of device memory");
  const auto* const bytes = static_cast<std::byte*>(alias);
  expect_bytes(pattern(100, 1), std::vector<std::byte>(bytes, bytes + 100), "device memory through its host alias");
}

void runs_in_order() {
  need_host_kernels();
  orStream_t stream = new_stream();
  Closure closure;
  closure.device = device_memory(1);
  const orHostKernel kernel = kernel_of(&closure);
  const Busy busy(stream, milliseconds(20));
  ok(driver.orMemsetAsync(closure.device, 1, 1, stream));
  offered(driver.orLaunchHostKernel(&kernel, stream), "host code as a kernel");
  ok(driver.orStreamSynchronize(stream));
  expect_equal(1, closure.runs.load(), "how often the kernel ran");
  expect_equal(42, std::to_integer<int>(download(closure.device, 1)[0]), "what a kernel behind a fill wrote");
}

void destroyed_once() {
  need_host_kernels();
  orStream_t stream = new_stream();
  Closure closure;
  closure.device = device_memory(1);
  const orHostKernel kernel = kernel_of(&closure);
  offered(driver.orLaunchHostKernel(&kernel, stream), "host code as a kernel");
  ok(driver.orStreamSynchronize(stream));
  ok(driver.orStreamDestroy(stream));
  refused(orErrorInvalidHandle, driver.orLaunchHostKernel(&kernel, stream), "a stream that was destroyed");
  expect_equal(1, closure.runs.load(), "how often the kernel ran");
  expect_equal(2, closure.destroyed.load(), "how many of two closures were destroyed");
}

constexpr Check kChecks[] = {
    {"host kernels", "the host alias shows the bytes", "kernels in C++, which only a simulation or a processor can run",
     alias_shows_the_bytes},
    {"host kernels", "a host kernel runs in the order of its stream", "every operator whose kernel is C++ of the host",
     runs_in_order},
    {"host kernels", "a closure is destroyed once, also when the launch is refused", "the tensors that a kernel holds",
     destroyed_once},
};

}  // namespace

std::span<const Check> host_kernel_checks() { return kChecks; }

}  // namespace conformance
