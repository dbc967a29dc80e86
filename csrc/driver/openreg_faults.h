// Fault injection, so that error handling can be taught and tested. Only a simulated device can fail on request.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

// A new count replaces the previous one; orDeviceReset sets all to 0. Kernels are counted when they are launched.
// LITERALINCLUDE START: driver-faults
typedef enum orFault_t {
  orFaultAllocation = 0,  // the next `count` calls of orMalloc find no memory
  orFaultKernel = 1,      // the next `count` kernels fail
  orFaultHang = 2,  // the next `count` kernels hang until a reset, the loss of the device or the process's exit
  orFaultDeviceLost = 3,  // the device is lost at once, and every call that touches it says so; count is ignored
} orFault_t;

OR_CALL orError_t orInjectFault(orFault_t fault, int device, unsigned count);
// LITERALINCLUDE END: driver-faults

#ifdef __cplusplus
}
#endif
