// Selects the platform and the devices that the driver uses.
#pragma once

#include <string>
#include <vector>

#include "../config.h"
#include "opencl.h"

namespace openreg::driver::opencl {

// OPENREG_OPENCL_PLATFORM, part of a platform's name, selects one of several. The default is the first with a GPU or an
// accelerator, otherwise the first with a CPU.
struct Platform {
  cl_platform_id id = nullptr;
  std::string name;
  std::vector<cl_device_id> devices;
  size_t shares = 1;  // how many devices share one memory: a CPU is split into sub-devices
};

// OPENREG_DEVICE_COUNT limits the number of devices. A CPU is split into that many, by default 2, each with some of its
// cores.
orError_t find_platform(const Config& config, Platform* found);

}  // namespace openreg::driver::opencl
