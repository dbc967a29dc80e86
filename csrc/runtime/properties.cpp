// Device properties, one call of the driver. Called on any thread, with or without the GIL.
#include "runtime/properties.h"

#include "runtime/device.h"
#include "runtime/error.h"

namespace openreg {

// LITERALINCLUDE START: properties-of-device
orDeviceProp device_properties(int64_t index) {
  orDeviceProp properties{};
  check(orGetDeviceProperties(&properties, resolve_device_index(index)));
  return properties;
}
// LITERALINCLUDE END: properties-of-device

}  // namespace openreg
