// What the functions that allocate and free device memory have in common.
#pragma once

#include <cstddef>

#include "driver.h"
#include "openreg.h"

namespace openreg::driver {

// Allocates on the device; null for zero bytes.
orError_t allocate(Driver& driver, Device& device, size_t bytes, void** pointer);
// The device memory that a pointer to be freed lies in.
orError_t locate_for_free(const Driver& driver, const void* pointer, Location* location);

}  // namespace openreg::driver
