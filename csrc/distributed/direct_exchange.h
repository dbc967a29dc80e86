// Collectives through device memory that all ranks can access. Nothing is copied to the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "distributed/reduction.h"
#include "distributed/windows.h"

namespace openreg {

// LITERALINCLUDE START: distributed-direct-class
// One operation. All tensors are dense and have one dimension; a reduction's are as Reduction::view makes them. Kernels
// and copies are queued on the current streams, which are those of the windows.
class DirectExchange {
 public:
  // `meet` returns when all ranks have called it, or throws.
  DirectExchange(Windows& windows, int rank, int size, std::function<void()> meet)
      : windows_(windows), rank_(rank), size_(size), meet_(std::move(meet)) {}

  void all_reduce(const at::Tensor& tensor, const Reduction& reduction);
  // The input has the parts of all ranks in their order.
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, const Reduction& reduction);
  void all_gather(const at::Tensor& output, const at::Tensor& input);
  void broadcast(const at::Tensor& tensor, int root);

 private:
  // Returns when what all ranks have written to their windows can be read.
  void publish();
  // The ranks' contributions to `part`, which this rank reduces: its own, and those in the windows.
  void reduce(const at::Tensor& part, const at::Tensor& own, int64_t offset, const Reduction& reduction);

  Windows& windows_;
  const int rank_;
  const int size_;
  const std::function<void()> meet_;
};
// LITERALINCLUDE END: distributed-direct-class

}  // namespace openreg
