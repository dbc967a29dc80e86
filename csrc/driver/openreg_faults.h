// Fault injection, so that error handling can be taught and tested. Only a simulated device can fail on request.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum orFault_t {
  orFaultAllocation = 0,  // the next `count` calls of orMalloc find no memory
  orFaultKernel = 1,      // the next `count` kernels fail
  orFaultHang = 2,        // the next `count` kernels never finish; orDeviceReset and the process's end end them
  orFaultDeviceLost = 3,  // the device is lost at once; count is ignored
} orFault_t;

OR_CALL orError_t orInjectFault(orFault_t fault, int device, unsigned count);

#ifdef __cplusplus
}
#endif
