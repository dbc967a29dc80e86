// Kernels in the device's own language: load a module, look up a function in it, launch it on a stream.
//
// The language is OpenCL C 1.2; each driver documents the subset that it accepts. A driver may omit these functions:
// their addresses are then null. orModuleLoad returns orErrorNotSupported for a format that the driver does not accept.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct orModule* orModule_t;
typedef struct orFunction* orFunction_t;

// LITERALINCLUDE START: driver-modules
typedef enum orModuleFormat {
  orModuleSource = 0,  // text in the device's language
  orModuleBinary = 1,  // from orModuleGetBinary of the same driver and kind of device
} orModuleFormat;

// Compiles or loads code for the current device, which may take seconds. Code that the compiler rejects is
// orErrorCompilation, with its whole log as the detail. `options` goes to the compiler ("-DTILE=16"); null means none.
OR_OPTIONAL orError_t orModuleLoad(orModule_t* module, orModuleFormat format, const void* image, size_t bytes,
                                   const char* options);
// Gets the compiled module. With a null image *bytes becomes its size; otherwise *bytes is the size of the buffer, and
// too little is orErrorOutOfRange. Saved on disk, the binary spares the next process the compilation.
OR_OPTIONAL orError_t orModuleGetBinary(void* image, size_t* bytes, orModule_t module);
// Waits for the work of the module's device. Invalidates the module's functions.
OR_OPTIONAL orError_t orModuleUnload(orModule_t module);

// An unknown name is orErrorInvalidValue, whose detail lists the names that the module has.
OR_OPTIONAL orError_t orModuleGetFunction(orFunction_t* function, orModule_t module, const char* name);
// LITERALINCLUDE END: driver-modules

// LITERALINCLUDE START: driver-functions
typedef struct orFunctionAttributes {
  int argument_count;
  size_t max_group_size;  // work-items of one group
  size_t group_size_multiple;  // multiples of it leave no lane idle
  size_t local_memory;  // bytes that the function itself declares, without its arguments
} orFunctionAttributes;

OR_OPTIONAL orError_t orFunctionGetAttributes(orFunctionAttributes* attributes, orFunction_t function);
// LITERALINCLUDE END: driver-functions

// LITERALINCLUDE START: driver-function-launch
typedef enum orArgumentKind {
  orArgumentPointer = 0,  // `value` is the device address, null included; `bytes` is not read
  orArgumentValue = 1,  // `bytes` bytes at `value`: a number or a struct, copied before the launch returns
  orArgumentLocal = 2,  // `bytes` bytes of local memory for each group; `value` is null
} orArgumentKind;

typedef struct orArgument {
  orArgumentKind kind;
  size_t bytes;
  const void* value;
} orArgument;

// Groups of work-items, in up to three dimensions; unused dimensions are 1.
typedef struct orLaunchConfig {
  unsigned groups[3];
  unsigned group_size[3];
} orLaunchConfig;

// Queues the function on a stream of the module's device; a null stream is the default stream of the module's device. A
// wrong number of arguments, a value of the wrong size, no work-items, or too many in a group are orErrorInvalidValue,
// before anything runs. The memory that the pointers name must stay allocated until the stream has passed the launch,
// as with copies.
OR_OPTIONAL orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                                       size_t argument_count, orStream_t stream);
// LITERALINCLUDE END: driver-function-launch

#ifdef __cplusplus
}
#endif
