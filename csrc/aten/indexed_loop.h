// Kernels that know the number of each element: its place in the tensor's logical order, row by row.
//
// A TensorIterator (elementwise.h) visits elements in the order that suits the memory. Random numbers must not depend
// on the memory, so these kernels count for themselves. For kernel files only (see launch.h).
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/TensorBase.h>
#include <c10/util/DimVector.h>

#include <array>

#include "aten/launch.h"

namespace openreg {

// LITERALINCLUDE START: indexed-loop
// Calls body(addresses, number) for each element of N operands of one shape.
template <size_t N, class Body>
struct IndexedLoop {
  using Addresses = std::array<char*, N>;

  at::DimVector sizes;  // never empty
  std::array<at::DimVector, N> strides;  // bytes
  Addresses data;
  Body body;

  void operator()() const {
    uint64_t number = 0;
    run(0, data, number);
  }

 private:
  void run(size_t dim, Addresses at, uint64_t& number) const {
    const bool innermost = dim + 1 == sizes.size();
    for (int64_t i = 0; i < sizes[dim]; ++i) {
      if (innermost) {
        body(at, number++);
      } else {
        run(dim + 1, at, number);
      }
      for (size_t operand = 0; operand < N; ++operand) {
        at[operand] += strides[operand][dim];
      }
    }
  }
};
// LITERALINCLUDE END: indexed-loop

// LITERALINCLUDE START: indexed-launch
// Queues body(addresses, number) for each element. Requires: the operands are on one device and have the same sizes.
template <size_t N, class Body>
void launch_indexed(const char* name, const std::array<at::TensorBase, N>& operands, Body body) {
  IndexedLoop<N, Body> loop{at::DimVector(operands[0].sizes()), {}, {}, std::move(body)};
  size_t bytes = 0;
  for (size_t i = 0; i < N; ++i) {
    const at::TensorBase& operand = operands[i];
    const size_t span = at::detail::computeStorageNbytes(operand.sizes(), operand.strides(), operand.element_size());
    loop.data[i] = host_alias(static_cast<char*>(operand.data_ptr()), span);
    for (const int64_t stride : operand.strides()) {
      loop.strides[i].push_back(stride * static_cast<int64_t>(operand.element_size()));
    }
    if (operand.dim() == 0) {
      loop.strides[i].push_back(0);
    }
    bytes += span;
  }
  if (loop.sizes.empty()) {
    loop.sizes.push_back(1);  // a tensor without dimensions has one element
  }
  launch(name, operands[0].device().index(), bytes, std::move(loop));
}
// LITERALINCLUDE END: indexed-launch

}  // namespace openreg
