// Functions in the device's language: compiled on first use, and cached in memory and on disk.
//
// Sources are in torch_openreg/native of the installed package; OPENREG_NATIVE_SOURCES names another folder. A source
// is read on first use: an edited kernel runs in the next process, without a build.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "driver/openreg_modules.h"

namespace openreg::native {

// LITERALINCLUDE START: native-cache-contract
// A function that is ready to be launched, and its attributes on the device.
struct Function {
  orFunction_t handle;
  orFunctionAttributes attributes;
};

// Returns the function `name` of the source `file`, such as "loops/abs.cl", compiled with `options` for the device. It
// lives as long as the process.
// Thread: any, with or without the GIL. A call waits while another thread compiles.
// Throws: RuntimeError, with the compiler's whole log, if the source does not compile, or if it has no such function.
const Function& find_function(c10::DeviceIndex device, const std::string& file, const std::string& name,
                              const std::string& options);
// LITERALINCLUDE END: native-cache-contract

}  // namespace openreg::native
