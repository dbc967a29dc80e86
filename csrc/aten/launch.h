// Launching a C++ closure as a kernel of the simulated device.
//
// For kernel files only: a vendor replaces them, and this header, by kernels in their own device's language.
#pragma once

#include <c10/core/Device.h>

#include <cstdio>
#include <exception>
#include <memory>
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
// Queues a new Closure(parts...) on the device's stream, to be called there, and returns. A closure holds addresses and
// numbers, no tensors of the caller: the last reference to one may need Python to die, and the thread that runs kernels
// has none. The memory stays valid, since the allocator reuses it in stream order.
template <class Closure, class... Parts>
void launch_new(const char* name, c10::DeviceIndex device, size_t work_bytes, Parts&&... parts) {
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
  const auto destroy = [](void* closure) { delete static_cast<Closure*>(closure); };
  const orHostKernel kernel{name, run, destroy, new Closure(std::forward<Parts>(parts)...), work_bytes};
  check(orLaunchHostKernel(&kernel, current_stream_handle(device)));
}

// The same for a closure that is there already.
template <class Body>
void launch(const char* name, c10::DeviceIndex device, size_t work_bytes, Body&& body) {
  launch_new<std::decay_t<Body>>(name, device, work_bytes, std::forward<Body>(body));
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
