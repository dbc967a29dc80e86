// Explains host accesses to device memory.
#pragma once

#include "address_space.h"
#include "openreg.h"

namespace openreg::driver {

// From now on a SIGSEGV in a device's address range says on stderr what happened; then, as for every other SIGSEGV,
// the handler that was installed before takes over.
// Requires: `space` lives as long as the process. Called once, when the driver starts.
orError_t explain_device_faults(const AddressSpace& space);

}  // namespace openreg::driver
