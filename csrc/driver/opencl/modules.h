// Modules, their functions, and what the driver knows of their parameters.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../openreg_modules.h"
#include "device.h"
#include "opencl.h"

namespace openreg::driver::opencl {

struct Module {
  Device& device;
  ClProgram program;
};

struct Parameter {
  std::string name;
  std::string type;
  bool known = false;  // false where the platform keeps no facts of parameters; OpenCL's own check remains then
  orArgumentKind kind = orArgumentValue;
  size_t bytes = 0;  // of a value whose type is known; else 0
};

// What is launched. The arguments are a state of it, beside the regions of the arena that it may use.
struct KernelObject {
  ClKernel kernel;
  uint64_t regions_version = 0;  // of the arena, when the kernel was told its regions
};

struct Function {
  std::shared_ptr<Module> module;
  std::string name;
  ClKernel kernel;  // to be asked about
  std::vector<Parameter> parameters;
  size_t max_group_size = 0;
  std::mutex mutex;  // from the first argument to the launch
  // By the parameters that get a null pointer: on NVIDIA's platform a parameter that had memory before takes no null.
  std::map<std::vector<bool>, KernelObject> objects;
};

}  // namespace openreg::driver::opencl
