// The shape of the simulated machine, from the environment.
#pragma once

#include <cstddef>

#include "openreg.h"

namespace openreg::driver {

enum class LaunchMode { kAuto, kAsync, kInline };

struct Config {
  int device_count = 2;
  size_t device_memory = size_t{4} << 30;  // bytes per device
  LaunchMode launch = LaunchMode::kAuto;
};

// The configuration, read on the first call. A bad variable is an error, and the variables are read again next time.
// Thread: any; takes a lock on the first call only. Touches no device, so a forked child may call it.
orError_t get_config(const Config** config);

}  // namespace openreg::driver
