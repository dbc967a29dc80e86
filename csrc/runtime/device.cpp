// Devices over the driver's current-device calls. Called on any thread, with or without the GIL.
#include "runtime/device.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <exception>

#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/kernel_error.h"
#include "runtime/trace.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: device-fork-flags
std::atomic<int> known_count{-1};  // of devices, once the driver has started
std::atomic<bool> has_begun_to_start{false};
std::atomic<bool> initialized{false};
std::atomic<bool> in_bad_fork{false};

// Runs in the child, where only async-signal-safe functions may be called: it only stores flags. A profile that the
// parent records does not include the child.
void mark_forked_child() {
  if (!has_begun_to_start.load()) return;
  in_bad_fork.store(true);
  call_observer.store(nullptr);
  initialized.store(false);
}

// At load time: a fork on another thread that overlaps the driver's start must find the handler in place.
const int not_registered = pthread_atfork(nullptr, nullptr, mark_forked_child);
// LITERALINCLUDE END: device-fork-flags

// LITERALINCLUDE START: device-driver-start
c10::DeviceIndex start_driver() {
  TORCH_CHECK(not_registered == 0, "openreg: the handler that protects forked processes could not be registered");
  has_begun_to_start.store(true);
  int count = 0;
  const orError_t error = orGetDeviceCount(&count);
  if (error != orSuccess) has_begun_to_start.store(known_count.load() >= 0);
  check(error);
  known_count.store(count);
  return static_cast<c10::DeviceIndex>(count);
}
// LITERALINCLUDE END: device-driver-start

// LITERALINCLUDE START: device-no-device-warning
// A program may install a handler that turns warnings into exceptions. None may leave a noexcept function.
void warn_of_no_device(const char* reason) noexcept {
  try {
    TORCH_WARN_ONCE("openreg reports no device: ", reason);
  } catch (...) {
    // The handler has received the text.
  }
}
// LITERALINCLUDE END: device-no-device-warning

}  // namespace

// LITERALINCLUDE START: device-count-cached
c10::DeviceIndex device_count() {
  // Not a static of this function: in a child that was forked while another thread initializes it, it would stay
  // locked.
  const int known = known_count.load();
  // In a forked child the driver refuses to start, with a message that says what to do instead.
  return known >= 0 && !is_in_bad_fork() ? static_cast<c10::DeviceIndex>(known) : start_driver();
}

c10::DeviceIndex device_count_or_zero() noexcept {
  try {
    return device_count();
  } catch (const c10::Error& error) {
    warn_of_no_device(error.what_without_backtrace());
  } catch (const std::exception& error) {  // NOT PROVEN: the host has no memory
    warn_of_no_device(error.what());  // NOT PROVEN: as above
  }
  return 0;
}
// LITERALINCLUDE END: device-count-cached

// LITERALINCLUDE START: device-current
c10::DeviceIndex current_device() {
  int index = 0;
  check(orGetDevice(&index));
  return static_cast<c10::DeviceIndex>(index);
}
// LITERALINCLUDE END: device-current

// LITERALINCLUDE START: device-resolve-index
c10::DeviceIndex resolve_device_index(int64_t index) {
  const c10::DeviceIndex count = device_count();
  if (index == -1) {
    return current_device();
  }
  TORCH_CHECK(index >= 0 && index < count, "openreg: device index ", index,
              " was asked for, but the valid indices are 0 to ", count - 1,
              " (OPENREG_DEVICE_COUNT sets the number of devices)");
  return static_cast<c10::DeviceIndex>(index);
}
// LITERALINCLUDE END: device-resolve-index

// LITERALINCLUDE START: device-exchange
void set_device(int64_t index) { check(orSetDevice(resolve_device_index(index))); }

c10::DeviceIndex exchange_device(int64_t index) {
  const c10::DeviceIndex previous = current_device();
  if (index != previous) {
    set_device(index);
  }
  return previous;
}
// LITERALINCLUDE END: device-exchange

// LITERALINCLUDE START: device-unless-current
std::optional<c10::Device> unless_current(std::optional<c10::Device> device) {
  const bool is_current = !device || !device->has_index() || device->index() == current_device();
  return is_current ? std::nullopt : device;
}
// LITERALINCLUDE END: device-unless-current

// LITERALINCLUDE START: device-initialize
void initialize() {
  if (!initialized.load()) {
    static_cast<void>(device_count());
    initialized.store(true);
  }
}
// LITERALINCLUDE END: device-initialize

// LITERALINCLUDE START: device-synchronize
void synchronize_device(int64_t index) {
  const c10::DeviceIndex device = resolve_device_index(index);
  const DriverCall call("orDeviceSynchronize");
  wait_for_device(device);  // before the guard: the handlers of signals, which run in it, have the program's device
  const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, device));
  check(orDeviceSynchronize());
  trace(&Tracer::trace_gpu_device_synchronization);
  raise_kernel_error(device);
}
// LITERALINCLUDE END: device-synchronize

bool is_initialized() noexcept { return initialized.load(); }

bool is_in_bad_fork() noexcept { return in_bad_fork.load(); }

}  // namespace openreg
