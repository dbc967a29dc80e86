// Explains host accesses to device memory.
#pragma once

#include "address_space.h"
#include "openreg.h"

namespace openreg::driver {

// Installs handlers that explain on stderr a fault in a device's address range (SIGSEGV), and an integer that a kernel
// divides by zero (SIGFPE); then, as for every other such signal, the previously installed handler takes over.
// Requires: `space` lives as long as the process. Called once, when the driver starts.
orError_t explain_device_faults(const AddressSpace& space);

}  // namespace openreg::driver
