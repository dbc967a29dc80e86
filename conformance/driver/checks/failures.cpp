// What a device does when something goes wrong on it. It takes openreg_faults.h to see: a driver of real hardware has
// nothing of the kind, and another way to be tested.
#include <future>
#include <string>
#include <thread>

#include "check.h"

namespace conformance {
namespace {

void inject(orFault_t fault, unsigned count = 1) {
  if (!driver.orInjectFault.exists()) not_offered("faults on request: the library has no orInjectFault");
  offered(driver.orInjectFault(fault, 0, count), "faults on request");
}

void launch_failing(orStream_t stream) {
  orKernel_t kernel = nullptr;
  const uint64_t nanoseconds = 0;
  offered(driver.orGetKernel(&kernel, "sleep"), "kernels that are built in");
  // A driver that runs the kernel before the launch returns may say so at once.
  const orError_t error = driver.orLaunchKernel(kernel, &nanoseconds, sizeof(nanoseconds), stream);
  if (error != orErrorLaunchFailure) ok(error);
}

void allocation_fails() {
  inject(orFaultAllocation);
  void* pointer = nullptr;
  refused(orErrorMemoryAllocation, driver.orMalloc(&pointer, 16), "an injected fault");
  expect(pointer == nullptr, "null from an orMalloc that failed", "a pointer");
  ok(driver.orFree(device_memory(16)));
}

void reported_by(orError_t (*wait)(orStream_t stream, orEvent_t event), const char* name) {
  orStream_t stream = new_stream();
  orEvent_t event = new_event();
  inject(orFaultKernel);
  launch_failing(stream);
  static_cast<void>(driver.orEventRecord(event, stream));
  refused(orErrorLaunchFailure, wait(stream, event), std::string("a kernel that failed, to ") + name);
  const std::string text = driver.orGetErrorDetail();
  expect(text.find("sleep") != std::string::npos, "a text that names the kernel that failed, sleep", "'" + text + "'");
}

void by_stream() {
  reported_by([](orStream_t stream, orEvent_t) { return driver.orStreamSynchronize(stream); }, "orStreamSynchronize");
}
void by_device() {
  reported_by([](orStream_t, orEvent_t) { return driver.orDeviceSynchronize(); }, "orDeviceSynchronize");
}
void by_event() {
  reported_by([](orStream_t, orEvent_t event) { return driver.orEventSynchronize(event); }, "orEventSynchronize");
}

void stays_until_reset() {
  inject(orFaultKernel);
  std::byte* const memory = device_memory(16);
  std::byte byte{};
  launch_failing(nullptr);
  refused(orErrorLaunchFailure, driver.orDeviceSynchronize(), "a kernel that failed");
  void* pointer = nullptr;
  refused(orErrorLaunchFailure, driver.orMalloc(&pointer, 16), "a device that has failed");
  refused(orErrorLaunchFailure, driver.orMemcpy(&byte, memory, 1, orMemcpyDeviceToHost), "a device that has failed");
  refused(orErrorLaunchFailure, driver.orDeviceSynchronize(), "a device that has failed, asked again");
  ok(driver.orDeviceReset());
  ok(driver.orFree(device_memory(16)));
  ok(driver.orDeviceSynchronize());
}

void others_go_on() {
  need_two_devices();
  inject(orFaultKernel);
  launch_failing(nullptr);
  refused(orErrorLaunchFailure, driver.orDeviceSynchronize(), "a kernel that failed");
  ok(driver.orSetDevice(1));
  const auto bytes = pattern(100, 1);
  std::byte* const memory = device_memory(bytes.size());
  upload(memory, bytes);
  expect_bytes(bytes, download(memory, bytes.size()), "a copy on the device that has not failed");
}

void lost_device() {
  inject(orFaultDeviceLost);
  void* pointer = nullptr;
  refused(orErrorDeviceLost, driver.orMalloc(&pointer, 16), "a lost device");
  refused(orErrorDeviceLost, driver.orDeviceSynchronize(), "a lost device");
  ok(driver.orDeviceReset());
  ok(driver.orFree(device_memory(16)));
}

void hang_ends_with_reset() {
  inject(orFaultHang);
  orStream_t stream = new_stream();
  // On another thread: a driver that runs kernels on their caller hangs there.
  auto waits = std::async(std::launch::async, [stream] {
    launch_failing(stream);
    return driver.orStreamSynchronize(stream);
  });
  std::this_thread::sleep_for(milliseconds(50));
  ok(driver.orDeviceReset());
  const orError_t error = waits.get();
  expect(error == orErrorLaunchFailure || error == orErrorInvalidHandle,
         "orErrorLaunchFailure for who waited for work that a reset dropped", error_name(error));
  ok(driver.orDeviceSynchronize());
}

constexpr Check kChecks[] = {
    {"failures", "an allocation that fails gives nothing", "torch.OutOfMemoryError, and a program that goes on",
     allocation_fails},
    {"failures", "a failed kernel is reported by orStreamSynchronize", "a failure is raised before its result is read",
     by_stream},
    {"failures", "a failed kernel is reported by orDeviceSynchronize", "torch.accelerator.synchronize() raises",
     by_device},
    {"failures", "a failed kernel is reported by orEventSynchronize", "Event.synchronize() raises", by_event},
    {"failures", "a failure stays until the reset", "nothing that was computed after it is taken for a result",
     stays_until_reset},
    {"failures", "other devices go on", "other processes' and threads' devices are not taken down", others_go_on},
    {"failures", "a lost device says so", "torch.AcceleratorError, and not a hang", lost_device},
    {"failures", "a reset ends a kernel that hangs", "nothing; a process is ended instead", hang_ends_with_reset},
};

}  // namespace

std::span<const Check> failure_checks() { return kChecks; }

}  // namespace conformance
