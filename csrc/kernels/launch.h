// Launches a C++ closure as a kernel, on a device that runs host code.
#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Macros.h>
#include <c10/util/Exception.h>

#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "driver/openreg_host_kernels.h"
#include "runtime/error.h"

namespace openreg {

// LITERALINCLUDE START: launch-notes
// Note [Host code as kernels]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A kernel of this device is a C++ closure that computes on the host, at host addresses of device memory. Only the
// files of csrc/kernels may launch one or access such an address. A vendor replaces these files, and this header, with
// kernels in the language of their device; everything outside csrc/kernels stays as it is.
//
// Note [What a kernel holds]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// A queued kernel holds addresses and numbers, or views made for it, but none of its caller's tensors. Dropping the
// last reference to a tensor may run Python code, and the threads that run kernels can never take the GIL: Python may
// be waiting for them. The memory stays valid without a reference, since the allocator reuses it in stream order.
// LITERALINCLUDE END: launch-notes

// Throws: the driver's error, with the usual reason for an address that is not one of device memory.
[[noreturn]] void refuse_address(orError_t error, const void* address, size_t bytes);

// LITERALINCLUDE START: launch-host-alias
// Returns the host address of device memory. Only a kernel may access it: until it runs, earlier kernels may still be
// writing there.
template <class T>
T* host_alias(T* device_pointer, size_t bytes) {
  void* alias = nullptr;
  const orError_t error = orGetHostAlias(&alias, device_pointer, bytes);
  if (C10_UNLIKELY(error != orSuccess)) refuse_address(error, device_pointer, bytes);
  return static_cast<T*>(alias);
}
// LITERALINCLUDE END: launch-host-alias

// LITERALINCLUDE START: launch-raised
// A launch of a closure. An exception goes to the launch until that has returned, otherwise to the next caller that
// waits for the device.
struct KernelCall {
  void* closure;
  const char* name;
  c10::DeviceIndex device;
  std::exception_ptr* at_launch = nullptr;  // null once the kernel is queued
  std::shared_ptr<std::exception_ptr> waited_for = nullptr;  // null if the launch does not wait
  bool is_queued = false;

  // Requires: called in an exception handler.
  void raised() const noexcept;
};

// Launches the call through the functions of `kernel`, and rethrows what the closure threw (see launch).
bool launch_call(KernelCall call, orHostKernel kernel, bool wait);
// LITERALINCLUDE END: launch-raised

// LITERALINCLUDE START: launch-closure
// A queued call, which owns the closure.
template <class Closure>
struct QueuedCall : KernelCall {
  explicit QueuedCall(const KernelCall& call) : KernelCall(call), own(std::move(*static_cast<Closure*>(call.closure))) {
    closure = &own;
    at_launch = nullptr;
  }
  Closure own;
};

// Queues a call of the closure on the device's current stream, and returns. The closure holds addresses and numbers,
// none of the caller's tensors: dropping the last reference to one may run Python code, and a thread that runs kernels
// must not. The memory stays valid, since the allocator reuses it in stream order.
//
// An exception from the closure means that its arguments were wrong; the device stays usable. Throws: this exception,
// if the kernel ran at once or `wait` is set. Otherwise the next caller that waits for the device gets it
// (kernel_error.h), also while a graph is captured: the kernel runs with each replay.
// Returns: whether the kernel has run, without an exception.
template <class Closure>
  requires(!std::is_reference_v<Closure>)
bool launch(const char* name, c10::DeviceIndex device, size_t work_bytes, Closure&& closure, bool wait = false) {
  const auto run = [](void* call, char*, size_t) noexcept {
    const KernelCall& kernel = *static_cast<KernelCall*>(call);
    try {
      (*static_cast<Closure*>(kernel.closure))();
    } catch (...) {
      kernel.raised();
    }
    return 0;
  };
  // A kernel that runs at once uses the closure in place. Only queuing moves it.
  const auto keep = [](void* call) noexcept -> void* {
    KernelCall& kernel = *static_cast<KernelCall*>(call);
    kernel.is_queued = true;
    return static_cast<KernelCall*>(new (std::nothrow) QueuedCall<Closure>(kernel));
  };
  const auto destroy = [](void* call) { delete static_cast<QueuedCall<Closure>*>(static_cast<KernelCall*>(call)); };
  return launch_call({&closure, name, device}, {name, run, destroy, nullptr, work_bytes, keep}, wait);
}
// LITERALINCLUDE END: launch-closure

}  // namespace openreg
