// What a kernel has raised after the call that queued it had returned.
//
// Such an exception says that the arguments of one call were wrong. Nothing is wrong with the device, which goes on:
// the exception is kept, and whoever next waits for the device gets it.
#pragma once

#include <c10/core/Device.h>

#include <exception>

#include "driver/openreg.h"
#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: kernel-error-contract
// Keeps an exception for the next one who waits for the device. The first is kept until it has been raised, and what
// other kernels raise in between is dropped: like as not it comes of the first.
OPENREG_EXPORT void keep_kernel_error(c10::DeviceIndex device, const char* kernel, std::exception_ptr error) noexcept;

// Raises what is kept of a device, or of any device for -1, and forgets it. To be called after each wait.
OPENREG_EXPORT void raise_kernel_error(c10::DeviceIndex device);

// Waits for the work of a stream of the device. Throws: as check, and what a kernel has raised.
void synchronize_stream(orStream_t stream, c10::DeviceIndex device);
// LITERALINCLUDE END: kernel-error-contract

}  // namespace openreg
