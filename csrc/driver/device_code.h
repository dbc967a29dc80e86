// The ABI between the driver and a compiled module. Both include this header: the driver when it is built, a module
// when the driver compiles it. A binary built with another kVersion, or another device_language.h, is rejected.
#pragma once

namespace openreg::device_code {

// LITERALINCLUDE START: modules-abi
constexpr unsigned kVersion = 1;

// The limits of the device, for every function.
constexpr unsigned kMaxGroupSize = 1024;
constexpr unsigned kLocalMemory = 64 << 10;  // bytes for each group

// The work-item that is running, and its position.
struct Item {
  unsigned groups[3];
  unsigned group_size[3];
  unsigned group[3];
  unsigned local[3];
  void (*wait)(Item& item);  // barrier(): returns when all items of the group have called it
};

struct Parameter {
  bool is_pointer;
  unsigned bytes;
};

struct Function {
  const char* name;
  unsigned parameter_count;
  const Parameter* parameters;
  unsigned long long local_parameters;  // bit n: parameter n points to local memory
  // Runs one work-item. arguments[n] points to the value of argument n, even if that is a pointer.
  void (*run)(Item& item, void* const* arguments);
};

// Exported by a module under the name openreg_module.
struct Table {
  unsigned function_count;
  const Function* functions;
};
// LITERALINCLUDE END: modules-abi

}  // namespace openreg::device_code
