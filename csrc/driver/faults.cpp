// Implements orInjectFault.
#include "faults.h"

#include <cstdio>

#include "driver.h"
#include "error.h"

// LITERALINCLUDE START: kernel-fault-order
orError_t orInjectFault(orFault_t fault, int device, unsigned count) {
  using namespace openreg::driver;
  const Call call("orInjectFault");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  Device* target = nullptr;
  if (const orError_t error = driver->find_device(device, &target)) return error;
  switch (fault) {
    case orFaultAllocation:
    case orFaultKernel:
    case orFaultHang:
      target->faults.order(fault, count);
      return orSuccess;
    case orFaultDeviceLost:
      char text[64];
      std::snprintf(text, sizeof(text), "openreg:%d is lost (injected fault) until orDeviceReset", device);
      target->failure.lose(text);
      driver->for_each_served_stream([](Stream& stream) { stream.wake_all(); });
      return orSuccess;
  }
  return fail(orErrorInvalidValue, "fault %d does not exist; valid are 0 to 3", static_cast<int>(fault));
}
// LITERALINCLUDE END: kernel-fault-order
