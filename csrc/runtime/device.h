// Devices: how many there are and which one is current on the calling thread.
//
// PyTorch calls these through the guard (guard.cpp) and the hooks (hooks.cpp); Python through torch.openreg.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: device-note-gil
// Note [Threads and the GIL]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// PyTorch calls a backend on any thread, including its own autograd threads, with or without the GIL. So only
// csrc/python takes the GIL: a deleter that did would deadlock with a thread that holds the GIL and waits for the
// allocator's lock. A function that may wait for the device is called without the GIL if Python is the caller,
// so that other Python threads continue.
// LITERALINCLUDE END: device-note-gil

// LITERALINCLUDE START: device-note-fork
// Note [Forked children]
// ~~~~~~~~~~~~~~~~~~~~~~
// A child that was forked after its parent started the driver has neither the device's threads nor the owners of its
// locks. Every use of a device there is an error, which the driver raises (is_in_bad_fork). Destructors must not throw:
// they do nothing there, since a lock may be held forever and the memory belongs to the parent.
// LITERALINCLUDE END: device-note-fork

// The number of devices. The first call starts the driver.
// Throws: the driver's reason when it cannot start, for example in a child forked after the parent started it.
c10::DeviceIndex device_count();

// The same for callers that must not throw: 0, with a warning, when the driver cannot start.
OPENREG_EXPORT c10::DeviceIndex device_count_or_zero() noexcept;

// The current device is per-thread state; every thread starts with device 0.
OPENREG_EXPORT c10::DeviceIndex current_device();
OPENREG_EXPORT void set_device(int64_t index);
// Sets the device and returns the previous one.
OPENREG_EXPORT c10::DeviceIndex exchange_device(int64_t index);

// LITERALINCLUDE START: device-contract
// Returns the index, or the current device for -1, which is what PyTorch passes for "openreg" without an index. Takes
// more than PyTorch's eight bits, so that an index too large for them is reported, and not truncated to that of another
// device.
// Throws: an error that names the valid range.
OPENREG_EXPORT c10::DeviceIndex resolve_device_index(int64_t index);
// LITERALINCLUDE END: device-contract

// For guards: the device, or nothing if it is already the calling thread's current one ("openreg" without an index is).
// A guard costs several times as much as this check.
std::optional<c10::Device> unless_current(std::optional<c10::Device> device);

// Waits for all work of the device and raises the error of a kernel that failed.
OPENREG_EXPORT void synchronize_device(int64_t index);

// Makes the devices ready for use. Querying their number does not count as use: it only starts the driver.
// Throws: as device_count.
void initialize();

// Whether this process has used a device.
OPENREG_EXPORT bool is_initialized() noexcept;

// Whether this process was forked after its parent started the driver. Device threads and locks do not survive a fork,
// so any use of the device here is an error.
OPENREG_EXPORT bool is_in_bad_fork() noexcept;

}  // namespace openreg
