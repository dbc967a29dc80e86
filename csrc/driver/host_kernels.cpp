// Host functions as kernels, and the host's view of device memory.
#include "openreg_host_kernels.h"

#include <cstdio>

#include "driver.h"
#include "error.h"
#include "kernel.h"

using namespace openreg::driver;

namespace {

// LITERALINCLUDE START: kernel-host-work
struct HostKernelWork {
  int (*function)(void* closure, char* message, size_t message_bytes);
  void (*destroy)(void* closure);
  void* closure;
  void* (*copy)(void* closure);  // null when the driver owns the closure
  const char* name;

  void run(Device& device) {
    char message[512] = "";
    const int result = function(closure, message, sizeof(message));
    if (result == 0) return;
    message[sizeof(message) - 1] = '\0';
    if (message[0] == '\0') std::snprintf(message, sizeof(message), "it returned %d", result);
    fail_kernel(device, name, message);
  }
  void release() {
    if (copy == nullptr && destroy != nullptr) destroy(closure);
  }
  [[nodiscard]] Activity activity() const {  // NOT PROVEN: called only while recording
    return {orActivityKernel, 0, orMemcpyDefault, name};  // NOT PROVEN: as above
  }
  bool keep() {
    if (copy == nullptr) return true;
    void* const kept = copy(closure);
    if (kept == nullptr) return false;
    closure = kept;
    copy = nullptr;
    return true;
  }
};

orError_t find_target(const HostKernelWork& work, orStream_t stream, StreamRef* ref) {
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  if (work.name == nullptr || work.function == nullptr) return fail(orErrorInvalidValue, "name or run is null");
  return driver->find_stream(stream, ref);
}
// LITERALINCLUDE END: kernel-host-work

}  // namespace

// LITERALINCLUDE START: kernel-host-launch
orError_t orLaunchHostKernel(const orHostKernel* kernel, orStream_t stream) {
  const Call call("orLaunchHostKernel");
  if (kernel == nullptr) return fail(orErrorInvalidValue, "kernel is null");
  HostKernelWork work{kernel->run, kernel->destroy, kernel->closure, kernel->keep, kernel->name};
  StreamRef ref;
  if (const orError_t error = find_target(work, stream, &ref)) {
    work.release();
    return error;
  }
  return submit_kernel(ref, work, ref.stream->device().placement(kernel->work_bytes));
}
// LITERALINCLUDE END: kernel-host-launch

// LITERALINCLUDE START: kernel-host-alias
orError_t orGetHostAlias(void** alias, const void* device_pointer, size_t bytes) {
  const Call call("orGetHostAlias");
  if (alias == nullptr) return fail(orErrorInvalidValue, "alias is null");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver_in_kernel(&driver)) return error;
  const auto location = driver->space.locate(device_pointer);
  if (!location) return fail(orErrorInvalidPointer, "%p is not device memory", device_pointer);
  if (bytes > driver->space.memory_per_device() - location->offset) {
    return fail(orErrorOutOfRange, "%zu bytes at openreg:%d + 0x%zx run past the device's memory of %zu bytes", bytes,
                location->device, location->offset, driver->space.memory_per_device());
  }
  *alias = driver->space.backing(*location);
  return orSuccess;
}
// LITERALINCLUDE END: kernel-host-alias
