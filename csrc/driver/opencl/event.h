// An event: a point in the work of a stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "opencl.h"
#include "stream.h"

namespace openreg::driver::opencl {

struct Event {
  Event(Device& of, bool with_timing) : device(of), timing(with_timing) {}

  struct Point {
    std::shared_ptr<Stream> stream;  // null when the event was never recorded
    ClEvent command;                 // empty if the stream was idle
  };

  Device& device;
  const bool timing;
  std::atomic<uint64_t> records{0};  // begun so far; numbers them
  std::mutex mutex;                  // guards all below
  Point last;
  uint64_t last_number = 0;  // of the record that made `last`

  Point last_point() {
    const std::lock_guard lock(mutex);
    return last;
  }
};

}  // namespace openreg::driver::opencl
