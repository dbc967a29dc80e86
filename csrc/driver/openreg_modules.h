// Kernels in the device's own language: load a module, look a function up in it, launch it on a stream.
//
// The language is OpenCL C 1.2, and each driver says what it takes of it. A driver need not have these functions: where
// the library lacks one, its address is null; orModuleLoad answers orErrorNotSupported for a format that it cannot
// take.
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
  orModuleBinary = 1,  // what orModuleGetBinary gave for the same driver and kind of device
} orModuleFormat;

// Compiles, or loads, code for the current device, and may take seconds. What the compiler refuses is
// orErrorCompilation with its whole log as the detail. `options` is for the compiler ("-DTILE=16"); null means none.
OR_OPTIONAL orError_t orModuleLoad(orModule_t* module, orModuleFormat format, const void* image, size_t bytes,
                                   const char* options);
// The compiled module. With a null image *bytes becomes its size; otherwise *bytes is the room, and too little is
// orErrorOutOfRange. To be kept on disk, so that the next process need not compile.
OR_OPTIONAL orError_t orModuleGetBinary(void* image, size_t* bytes, orModule_t module);
// Waits for the work of the module's device. The functions of the module are dead then.
OR_OPTIONAL orError_t orModuleUnload(orModule_t module);

// A name that the module does not have is orErrorInvalidValue, whose detail lists those that it has.
OR_OPTIONAL orError_t orModuleGetFunction(orFunction_t* function, orModule_t module, const char* name);
// LITERALINCLUDE END: driver-modules

// LITERALINCLUDE START: driver-functions
typedef struct orFunctionAttributes {
  int argument_count;
  size_t max_group_size;  // work-items of one group
  size_t group_size_multiple;  // whole multiples leave no lane idle
  size_t local_memory;  // bytes that the function declares itself, arguments not counted
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

// Groups of work-items, in up to three dimensions; what is not used is 1.
typedef struct orLaunchConfig {
  unsigned groups[3];
  unsigned group_size[3];
} orLaunchConfig;

// Queues the function on a stream of the module's device; a null stream is the default stream of the module's device.
// The wrong number of arguments, a value of the wrong size, no work-items, or more in a group than the function can
// have are orErrorInvalidValue, before anything runs. The memory that the pointers name must stay allocated until the
// stream has passed the launch, as with copies.
OR_OPTIONAL orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                                       size_t argument_count, orStream_t stream);
// LITERALINCLUDE END: driver-function-launch

#ifdef __cplusplus
}
#endif
