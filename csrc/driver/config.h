// The configuration of the simulated machine, from the environment.
#pragma once

#include <cstddef>

#include "openreg.h"

namespace openreg::driver {

// LITERALINCLUDE START: config-shape
enum class LaunchMode { kAuto, kAsync, kInline };

struct Config {
  int device_count = 2;
  size_t device_memory = size_t{4} << 30;  // bytes per device
  LaunchMode launch = LaunchMode::kAuto;
};

// Reads the environment. An unset variable keeps its default.
orError_t read_config(Config* config);
// LITERALINCLUDE END: config-shape

}  // namespace openreg::driver
