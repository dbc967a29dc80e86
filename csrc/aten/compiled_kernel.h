// Kernels that a compiler generates while the program runs, torch.compile for example. The interface belongs to every
// device; what launches them belongs to the kernels of one.
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: compiled-kernel-contract
// One argument in the form that a generated kernel reads. The generated source declares the same union.
union CompiledArgument {
  void* pointer;
  int64_t integer;
  double real;
};

// The function that a generated library exports: it converts the arguments to their types and calls the kernel.
using CompiledEntry = void (*)(const CompiledArgument* arguments);

// One argument in the form that the caller has: a tensor stands for the address of its first element.
using CompiledValue = std::variant<at::Tensor, int64_t, double>;

// A call of a generated kernel. The library that contains `entry` must never be unloaded.
struct CompiledCall {
  CompiledEntry entry;
  std::string name;  // for profiles and error messages
  c10::DeviceIndex device;
  std::vector<CompiledValue> arguments;
};

// Queues the call on the device's current stream.
// Throws: NotImplementedError, if no launcher was set; what the launcher throws.
OPENREG_EXPORT void launch_compiled(const CompiledCall& call);

// Whether a launcher was set.
OPENREG_EXPORT bool can_launch_compiled();

// Sets the function that launches generated kernels on this device.
// Requires: called while libraries are loaded, on one thread.
using CompiledLauncher = void (*)(const CompiledCall& call);
void set_compiled_launcher(CompiledLauncher launcher);
// LITERALINCLUDE END: compiled-kernel-contract

}  // namespace openreg
