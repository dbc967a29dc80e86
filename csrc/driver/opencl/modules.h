// Modules, their functions, and what the driver knows about their parameters.
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
  bool known = false;  // false if the platform keeps no parameter info; only OpenCL's own check remains
  orArgumentKind kind = orArgumentValue;
  size_t bytes = 0;  // for a value whose type is known; otherwise 0
};

// The kernel that is launched. Its state is its arguments and the regions of the arena that it may use.
struct KernelObject {
  ClKernel kernel;
  uint64_t regions_version = 0;  // of the arena, when the kernel's regions were set
};

struct Function {
  std::shared_ptr<Module> module;
  std::string name;
  ClKernel kernel;  // for queries
  std::vector<Parameter> parameters;
  size_t max_group_size = 0;
  std::mutex mutex;  // held from the first argument to the launch
  // By the parameters that are null: on NVIDIA's platform, a parameter that has been set to memory accepts no null
  // later.
  std::map<std::vector<bool>, KernelObject> objects;
};

}  // namespace openreg::driver::opencl
