// Runs the work-items of a launch.
#pragma once

#include <cstddef>

#include "device_code.h"
#include "openreg_modules.h"

namespace openreg::driver {

class Device;

// Runs all groups on the calling thread, one after the other; ends early if the device stops. False if the function
// failed; message then says how.
bool run_groups(Device& device, const device_code::Function& function, const orLaunchConfig& config,
                void* const* arguments, char* message, size_t message_bytes);

}  // namespace openreg::driver
