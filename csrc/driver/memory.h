// Helpers shared by the functions that allocate and free device memory.
#pragma once

#include <cstddef>

#include "driver.h"
#include "openreg.h"

namespace openreg::driver {

// Of the functions of DeviceMemory that allocate, the one to call.
using Allocate = orError_t (DeviceMemory::*)(size_t bytes, size_t* offset);

// Allocates on the device; null for zero bytes.
orError_t allocate(Driver& driver, Device& device, size_t bytes, void** pointer,
                   Allocate allocate_in = &DeviceMemory::allocate);
// Finds the device memory that a pointer to be freed points to.
orError_t locate_for_free(const Driver& driver, const void* pointer, Location* location);

}  // namespace openreg::driver
