// Launches closures as kernels: the part that does not depend on the closure's type.
#include "kernels/launch.h"

#include <stdexcept>
#include <string>

#include "runtime/capture.h"
#include "runtime/driver_call.h"
#include "runtime/kernel_error.h"
#include "runtime/stream.h"
#include "runtime/wait.h"

namespace openreg {

void refuse_address(orError_t error, const void* address, size_t bytes) {
  if (address == nullptr) static_cast<void>(orGetLastError());  // this error is reported here
  TORCH_CHECK(address != nullptr, "openreg: a tensor of ", bytes,
              " bytes has no memory: its storage was resized to 0; give it its size again before the tensor is used");
  try {
    check(error);
  } catch (c10::Error& refused) {
    if (error == orErrorInvalidPointer) {
      refused.add_context("a kernel needs " + std::to_string(bytes) +
                          " bytes there; if the storage of the tensor was resized, give it its size again first");
    }
    throw;
  }
  TORCH_INTERNAL_ASSERT(false, "called without an error");
}

// LITERALINCLUDE START: launch-call
namespace {

// PyTorch translates exceptions derived from std::exception to Python, and terminates the process on any other.
std::exception_ptr for_python() noexcept {
  try {
    throw;
  } catch (const std::exception&) {
    return std::current_exception();
  } catch (...) {
    return std::make_exception_ptr(std::runtime_error("an exception that is not a std::exception"));
  }
}

}  // namespace

void KernelCall::raised() const noexcept {
  if (at_launch != nullptr) {
    *at_launch = for_python();
  } else if (waited_for && waited_for.use_count() > 1) {  // else the launch has given up its wait
    *waited_for = for_python();
  } else {
    keep_kernel_error(device, name, for_python());
  }
}

bool launch_call(KernelCall call, orHostKernel kernel, bool wait) {
  std::exception_ptr at_launch;
  call.at_launch = &at_launch;
  orStream_t stream = current_stream_handle(call.device);
  wait = wait && !is_capturing(stream);
  // Shared, since the kernel may still be queued when waiting for it fails.
  if (wait) call.waited_for = std::make_shared<std::exception_ptr>();
  kernel.closure = &call;
  {
    const DriverCall launched("orLaunchHostKernel");
    check(orLaunchHostKernel(&kernel, stream));
  }
  if (at_launch) {
    std::rethrow_exception(at_launch);
  }
  if (wait && call.is_queued) {
    const DriverCall waited("orStreamSynchronize");
    wait_for_stream(stream, call.device);
    check(orStreamSynchronize(stream));
    if (*call.waited_for) {
      std::rethrow_exception(*call.waited_for);
    }
    raise_kernel_error(call.device);
    return true;
  }
  return !call.is_queued;
}
// LITERALINCLUDE END: launch-call

}  // namespace openreg
