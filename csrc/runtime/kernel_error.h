// Exceptions that a kernel raises after the call that queued it has returned.
//
// Such an exception means that the arguments of one call were wrong. The device is unaffected and continues: the
// exception is kept, and the next call that waits for the device raises it.
#pragma once

#include <c10/core/Device.h>

#include <exception>

#include "driver/openreg.h"
#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: kernel-error-contract
// Keeps an exception for the next call that waits for the device. The first is kept until it is raised; later ones are
// dropped meanwhile, since they probably result from the first.
OPENREG_EXPORT void keep_kernel_error(c10::DeviceIndex device, const char* kernel, std::exception_ptr error) noexcept;

// Raises and clears the exception kept for a device, or for any device if the index is -1. To be called after each
// wait.
OPENREG_EXPORT void raise_kernel_error(c10::DeviceIndex device);

// Waits for the work of a stream of the device. Throws: as check, and the exception of a kernel.
void synchronize_stream(orStream_t stream, c10::DeviceIndex device);
// LITERALINCLUDE END: kernel-error-contract

}  // namespace openreg
