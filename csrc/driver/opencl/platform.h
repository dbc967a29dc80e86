// Which platform and which of its devices the driver uses.
#pragma once

#include <string>
#include <vector>

#include "../config.h"
#include "opencl.h"

namespace openreg::driver::opencl {

// OPENREG_OPENCL_PLATFORM, a part of a platform's name, chooses one of several. Otherwise it is the first with a GPU or
// an accelerator, then the first with a processor.
struct Platform {
  cl_platform_id id = nullptr;
  std::string name;
  std::vector<cl_device_id> devices;
  size_t shares = 1;  // how many of the devices share the memory of one: a processor is split into sub-devices
};

// OPENREG_DEVICE_COUNT limits the devices. A processor becomes so many, 2 unless it is set, each with some of its
// cores.
orError_t find_platform(const Config& config, Platform* found);

}  // namespace openreg::driver::opencl
