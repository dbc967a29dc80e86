// Allocation on a device, for the functions of openreg.h and of openreg_extended.h.
#pragma once

#include <cstddef>

#include "device.h"

namespace openreg::driver::opencl {

struct Driver;

// Returns to the arena the blocks whose streams have passed orFreeAsync.
void reclaim_retired(Device& device);

// Finds the allocation that starts at the pointer, and its device.
orError_t find_allocation(Driver& driver, const void* pointer, Device** device, Arena::Block* block);
orError_t fail_freed(const Device& device, const void* pointer);
orError_t fail_no_room(const Device& device, size_t bytes);

}  // namespace openreg::driver::opencl
