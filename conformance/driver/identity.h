// Which driver and device the report is about, asked in a process of its own, as every check is.
#pragma once

#include <chrono>
#include <string>

namespace conformance {

struct Identity {
  std::string driver;  // orDeviceProp.driver and name of the first device
  std::string device;
  int devices = 0;
  std::string problem;  // why the driver did not answer; "" when it did
};

// Requires: as run_check.
Identity identify(const char* library, std::chrono::milliseconds limit);

// "driver 'simulated', 2 devices, the first 'openreg simulated accelerator'"
std::string describe(const Identity& identity);

}  // namespace conformance
