// The properties of a device, as the driver reports them: its name, its memory, its version.
// torch.openreg.get_device_properties returns them.
#pragma once

#include <cstdint>

#include "driver/openreg.h"
#include "runtime/export.h"

namespace openreg {

// -1 is the current device.
// Throws: for an index that names no device; the message names the valid ones.
OPENREG_EXPORT orDeviceProp device_properties(int64_t index);

}  // namespace openreg
