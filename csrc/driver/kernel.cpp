// The kernels built into the device, orGetKernel and orLaunchKernel.
#include "kernel.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "error.h"
#include "handle_table.h"

namespace openreg::driver {
namespace {

using Clock = std::chrono::steady_clock;

// LITERALINCLUDE START: kernel-sleep
constexpr const char* kSleepName = "sleep";
constexpr uint32_t kSleepIndex = 0;

// Sleeps in short pieces, so that a reset or process exit need not wait for the rest.
constexpr auto kPiece = std::chrono::milliseconds(1);

void sleep_until(Device& device, Clock::time_point end) {
  for (auto now = Clock::now(); now < end && !device.stopping(); now = Clock::now()) {
    std::this_thread::sleep_for(std::min<Clock::duration>(end - now, kPiece));
  }
}

struct SleepWork {
  uint64_t nanoseconds;
  const char* name = kSleepName;

  void run(Device& device) {
    const auto start = Clock::now();
    const auto longest = static_cast<uint64_t>((Clock::time_point::max() - start).count());
    sleep_until(device, start + std::chrono::nanoseconds(std::min(nanoseconds, longest)));
  }
  void release() {}
  [[nodiscard]] Activity activity() const { return {orActivityKernel, 0, orMemcpyDefault, name}; }
};
// LITERALINCLUDE END: kernel-sleep

}  // namespace

// LITERALINCLUDE START: kernel-hang-and-fail
void hang(Device& device, uint64_t resets) {
  while (!device.stopping() && device.failure.resets() == resets) std::this_thread::sleep_for(kPiece);
}

void fail_kernel(Device& device, const char* name, const char* message) {
  char text[1024];
  std::snprintf(text, sizeof(text), "kernel '%s' failed on openreg:%d: %s; the device runs nothing more until %s", name,
                device.index, message, "orDeviceReset");
  device.failure.store(text);
}
// LITERALINCLUDE END: kernel-hang-and-fail

}  // namespace openreg::driver

using namespace openreg::driver;

// LITERALINCLUDE START: kernel-interface
orError_t orGetKernel(orKernel_t* kernel, const char* name) {
  const Call call("orGetKernel");
  if (kernel == nullptr || name == nullptr) return fail(orErrorInvalidValue, "kernel or name is null");
  if (std::strcmp(name, kSleepName) != 0) {
    return fail(orErrorInvalidValue, "the device has no kernel '%s'; valid is 'sleep'", name);
  }
  *kernel = reinterpret_cast<orKernel_t>(Handle{HandleKind::kKernel, 0, kSleepIndex, 1}.pack());
  return orSuccess;
}

orError_t orLaunchKernel(orKernel_t kernel, const void* arguments, size_t argument_bytes, orStream_t stream) {
  const Call call("orLaunchKernel");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  if (reinterpret_cast<uint64_t>(kernel) != Handle{HandleKind::kKernel, 0, kSleepIndex, 1}.pack()) {
    return fail(orErrorInvalidHandle, "%p is not a kernel", static_cast<void*>(kernel));
  }
  SleepWork work{};
  if (arguments == nullptr || argument_bytes != sizeof(work.nanoseconds)) {
    return fail(orErrorInvalidValue, "kernel 'sleep' takes %zu bytes of arguments (nanoseconds), given %zu at %p",
                sizeof(work.nanoseconds), argument_bytes, arguments);
  }
  std::memcpy(&work.nanoseconds, arguments, sizeof(work.nanoseconds));
  const bool on_caller = ref.stream->device().launch == LaunchMode::kInline;
  return submit_kernel(ref, work, on_caller ? Placement::kCaller : Placement::kQueue);
}
// LITERALINCLUDE END: kernel-interface
