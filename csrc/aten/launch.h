// Launching a C++ closure as a kernel of the simulated device.
//
// For kernel files only: a vendor replaces them, and this header, by kernels in their own device's language.
#pragma once

#include <c10/core/Device.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "driver/openreg_host_kernels.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {

// LITERALINCLUDE START: launch-host-alias
// The host address at which a kernel finds the bytes of device memory. To be used inside a kernel only: until then,
// earlier kernels may still be writing them.
template <class T>
T* host_alias(T* device_pointer, size_t bytes) {
  void* alias = nullptr;
  check(orGetHostAlias(&alias, device_pointer, bytes));
  return static_cast<T*>(alias);
}
// LITERALINCLUDE END: launch-host-alias

// LITERALINCLUDE START: launch-closure
// Queues a closure on the device's stream, to be called there, and returns. It holds addresses and numbers, no tensors
// of the caller: the last reference to one may need Python to die, and the thread that runs kernels has none. The
// memory stays valid, since the allocator reuses it in stream order.
template <class Closure>
  requires(!std::is_reference_v<Closure>)
void launch(const char* name, c10::DeviceIndex device, size_t work_bytes, Closure&& closure) {
  const auto run = [](void* closure, char* message, size_t message_bytes) noexcept {
    try {
      (*static_cast<Closure*>(closure))();
      return 0;
    } catch (const std::exception& error) {
      std::snprintf(message, message_bytes, "%s", error.what());
    } catch (...) {
      std::snprintf(message, message_bytes, "an exception that is not a std::exception");
    }
    return 1;
  };
  // A kernel that runs at once finds the closure where it is. Only one that is queued has it moved.
  const auto keep = [](void* closure) noexcept -> void* {
    return new (std::nothrow) Closure(std::move(*static_cast<Closure*>(closure)));
  };
  const auto destroy = [](void* closure) { delete static_cast<Closure*>(closure); };
  const orHostKernel kernel{name, run, destroy, &closure, work_bytes, keep};
  check(orLaunchHostKernel(&kernel, current_stream_handle(device)));
}
// LITERALINCLUDE END: launch-closure

// LITERALINCLUDE START: library-wait
// Runs body() on the device, waits for it, and raises what it raised: the device goes on.
template <class Body>
void launch_and_wait(const char* name, c10::DeviceIndex device, size_t work_bytes, Body body) {
  const auto raised = std::make_shared<std::exception_ptr>();
  launch(name, device, work_bytes, [raised, body = std::move(body)]() mutable {
    try {
      body();
    } catch (...) {
      *raised = std::current_exception();
    }
  });
  check(orStreamSynchronize(current_stream_handle(device)));
  if (*raised) {
    std::rethrow_exception(*raised);
  }
}
// LITERALINCLUDE END: library-wait

}  // namespace openreg
