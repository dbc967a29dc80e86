// Memory of the device through which the processes of one machine exchange tensors: each writes to a window of its own,
// and reads those of the others.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace openreg {

// LITERALINCLUDE START: distributed-windows-class
class Windows {
 public:
  // How much a window takes at once, in bytes.
  static constexpr int64_t kBytes = int64_t{8} << 20;

  // Makes a window on the device, and opens those of the other ranks. All ranks of `control`, a process group for CPU
  // tensors, call it together, and wait for each other.
  // Returns: null on every rank if one of them has failed, with a warning on that one.
  // Throws: when another rank has ended, or does not call it within the timeout.
  static std::unique_ptr<Windows> open(c10d::Backend& control, c10::Device device, std::chrono::milliseconds timeout);

  // `numel` elements of a rank's window.
  at::Tensor of(int rank, int64_t numel, at::ScalarType dtype) const;
  // A window has two halves. While one is read, the other can be written.
  void turn() { half_ = 1 - half_; }

  // For each device on which a window is, and for each that `use` has named, the stream that accesses them.
  const std::vector<c10::Stream>& streams() const { return streams_; }
  // Has a stream for tensors of the device, too. A stream of the program may have work of its own to do first.
  void use(c10::Device device);

 private:
  Windows() = default;

  std::vector<at::Tensor> windows_;  // by rank; each is two halves of bytes
  std::vector<c10::Stream> streams_;
  int64_t half_ = 0;
};
// LITERALINCLUDE END: distributed-windows-class

}  // namespace openreg
