// Host functions as native kernels, for devices that support them: such a device is the host, and its addresses are the
// host's.
#include "../openreg_host_kernels.h"

#include <cstdio>
#include <utility>

#include "activity.h"
#include "driver.h"

using namespace openreg::driver::opencl;
using openreg::driver::fail;
using openreg::driver::LaunchMode;

namespace {

// In the launch mode auto, a kernel that touches no more bytes runs on the calling thread if its stream is idle.
constexpr size_t kSmallWork = size_t{1} << 20;

// While it lives, the calling thread runs code of a kernel, which must not wait for the device.
class InsideKernel {
 public:
  InsideKernel() : before_(std::exchange(inside_kernel(), true)) {}
  InsideKernel(const InsideKernel&) = delete;
  InsideKernel& operator=(const InsideKernel&) = delete;
  ~InsideKernel() { inside_kernel() = before_; }

 private:
  const bool before_;
};

// A kernel and its closure, from the launch until the kernel has run or was dropped.
class HostKernel {
 public:
  explicit HostKernel(const orHostKernel& kernel) : kernel_(kernel) {}
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;
  ~HostKernel() { destroy(); }

  // Destroys a closure that the driver owns, once. A queued kernel does so on its own thread: the stream drops its work
  // with its lock held, on whichever thread polls, and that thread may hold a lock that the closure needs.
  void destroy() {
    if (kernel_.keep != nullptr || kernel_.destroy == nullptr) return;
    const InsideKernel inside;
    std::exchange(kernel_.destroy, nullptr)(kernel_.closure);
  }

  [[nodiscard]] const char* name() const { return kernel_.name; }

  // Replaces a closure that the caller owns by one that the driver owns; false if the host is out of memory.
  bool keep() {
    if (kernel_.keep == nullptr) return true;
    const InsideKernel inside;
    void* const kept = kernel_.keep(kernel_.closure);
    if (kept == nullptr) return false;
    kernel_.closure = kept;
    kernel_.keep = nullptr;
    return true;
  }

  void run_on(Device& device) { device_ = &device; }

  void run() {
    if (device_->failure.present() || device_->stopping()) return;
    char message[512] = "";
    int result = 0;
    {
      const InsideKernel inside;
      result = kernel_.run(kernel_.closure, message, sizeof(message));
    }
    if (result == 0) return;
    message[sizeof(message) - 1] = '\0';
    if (message[0] == '\0') std::snprintf(message, sizeof(message), "it returned %d", result);
    char text[1024];
    std::snprintf(text, sizeof(text),
                  "kernel '%s' failed on openreg:%d: %s; the device runs nothing more until orDeviceReset",
                  kernel_.name, device_->index, message);
    device_->failure.store(text);
  }

 private:
  orHostKernel kernel_;
  Device* device_ = nullptr;  // the device that it runs on
};

void CL_CALLBACK run_native(void* arguments) {
  HostKernel& kernel = **static_cast<HostKernel**>(arguments);
  kernel.run();
  kernel.destroy();
}

orError_t queue(Stream& stream, std::shared_ptr<HostKernel> kernel) {
  Work work;
  work.name = kernel->name();
  HostKernel* argument = kernel.get();  // OpenCL copies the bytes of this pointer
  work.keeps = std::move(kernel);
  return stream.submit("clEnqueueNativeKernel", std::move(work), [&](cl_command_queue cl_queue, cl_event* event) {
    return clEnqueueNativeKernel(cl_queue, run_native, &argument, sizeof(argument), 0, nullptr, nullptr, 0, nullptr,
                                 event);
  });
}

// False if the kernel must be queued.
bool run_on_caller(Stream& stream, HostKernel& kernel, size_t work_bytes) {
  if (stream.device().launch != LaunchMode::kAuto || work_bytes > kSmallWork || process_is_ending()) return false;
  return stream.run_if_idle([&] {
    Work work;
    work.name = kernel.name();
    work.span = std::make_shared<Span>();
    mark_recorded(work);
    work.span->begin = wall_clock();
    kernel.run();
    work.span->end = wall_clock();
    if (work.recorded) report_activity(work, stream);
  });
}

}  // namespace

orError_t orLaunchHostKernel(const orHostKernel* kernel, orStream_t stream) {
  std::shared_ptr<HostKernel> own;  // destroys the closure whichever way the launch ends
  try {
    if (kernel != nullptr) own = std::make_shared<HostKernel>(*kernel);
  } catch (const std::bad_alloc&) {
    const HostKernel dropped(*kernel);  // destroys the closure
    const openreg::driver::Call named("orLaunchHostKernel");
    return fail(orErrorMemoryAllocation, "the host has no memory for a kernel");
  }
  return call("orLaunchHostKernel", [&](Driver& driver) {
    if (kernel == nullptr) return fail(orErrorInvalidValue, "kernel is null");
    if (kernel->name == nullptr || kernel->run == nullptr) return fail(orErrorInvalidValue, "name or run is null");
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    Device& device = on->device();
    if (const orError_t error = device.failure.refuse()) return error;
    if ((device_info<cl_device_exec_capabilities>(device.id, CL_DEVICE_EXECUTION_CAPABILITIES) &
         CL_EXEC_NATIVE_KERNEL) == 0) {
      return fail(orErrorNotSupported, "openreg:%d runs no host code: it is no processor of the host", device.index);
    }
    own->run_on(device);
    if (run_on_caller(*on, *own, kernel->work_bytes)) return orSuccess;
    if (!own->keep()) {
      return fail(orErrorMemoryAllocation, "the host has no memory for the closure of '%s'", kernel->name);
    }
    return queue(*on, own);
  });
}

orError_t orGetHostAlias(void** alias, const void* device_pointer, size_t bytes) {
  return call_in_kernel("orGetHostAlias", [&](Driver& driver) {
    if (alias == nullptr) return fail(orErrorInvalidValue, "alias is null");
    for (const auto& device : driver.devices) {
      const size_t left = device->arena.bytes_in_region(reinterpret_cast<uintptr_t>(device_pointer));
      if (left == 0) continue;
      if (bytes > left) {
        return fail(orErrorOutOfRange, "%zu bytes at %p run past the end of the device's memory; %zu are left there",
                    bytes, device_pointer, left);
      }
      *alias = const_cast<void*>(device_pointer);
      return orSuccess;
    }
    return fail(orErrorInvalidPointer, "%p is not device memory", device_pointer);
  });
}
