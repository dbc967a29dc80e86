// Another current device for a scope, in code that does not depend on PyTorch. Elsewhere c10::DeviceGuard is better: it
// reports errors.
#pragma once

#include "driver/openreg.h"

namespace openreg {

// LITERALINCLUDE START: pool-current-device
// Makes a device current for driver calls that depend on the current one, and restores the previous device.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : error_(orGetDevice(&previous_)) {
    if (error_ == orSuccess) error_ = orSetDevice(device);
  }
  ~CurrentDevice() {
    // Without an error, another device is current now. The previous one exists, and a destructor could not throw.
    if (error_ == orSuccess) error_ = orSetDevice(previous_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  orError_t error() const { return error_; }

 private:
  int previous_ = 0;
  orError_t error_;
};
// LITERALINCLUDE END: pool-current-device

}  // namespace openreg
