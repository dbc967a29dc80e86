// Functions of the device's language: compiled when they are first asked for, and kept, in memory and on disk.
//
// A source lies beside the installed package, in torch_openreg/native; OPENREG_NATIVE_SOURCES names another folder. It
// is read when it is first needed: an edited kernel runs in the next process, and nothing is built again.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "driver/openreg_modules.h"

namespace openreg::native {

// LITERALINCLUDE START: native-cache-contract
// A function that is ready to be launched, and what the device says of it.
struct Function {
  orFunction_t handle;
  orFunctionAttributes attributes;
};

// The function `name` of the source `file`, such as "loops/abs.cl", compiled with `options` for the device. It lives as
// long as the process.
// Thread: any, with or without the GIL. One that asks for what another is compiling waits for it.
// Throws: RuntimeError with the compiler's whole log where the source does not compile, or names no such function.
const Function& find_function(c10::DeviceIndex device, const std::string& file, const std::string& name,
                              const std::string& options);
// LITERALINCLUDE END: native-cache-contract

}  // namespace openreg::native
