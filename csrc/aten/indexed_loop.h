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
#include "aten/rows.h"

namespace openreg {

// LITERALINCLUDE START: indexed-loop
// Calls body(addresses, number) for each element of N operands of one shape.
template <size_t N, class Body>
struct IndexedLoop {
  using Addresses = typename Rows<N>::Addresses;

  Rows<N> rows;  // the last dimension of the tensors is the first one here
  Addresses data;
  Body body;

  void operator()() const {
    uint64_t number = 0;
    rows.for_each(data, [&](Addresses at) {
      for (int64_t i = 0; i < rows.shape[0]; ++i) {
        body(at, number++);
        for (size_t operand = 0; operand < N; ++operand) at[operand] += rows.strides[operand][0];
      }
    });
  }
};
// LITERALINCLUDE END: indexed-loop

// LITERALINCLUDE START: indexed-launch
// Queues body(addresses, number) for each element. Requires: the operands are on one device and have the same sizes.
template <size_t N, class Body>
void launch_indexed(const char* name, const std::array<at::TensorBase, N>& operands, Body body) {
  const at::TensorBase& first = operands[0];
  IndexedLoop<N, Body> loop{{at::DimVector(first.sizes().rbegin(), first.sizes().rend()), {}}, {}, std::move(body)};
  size_t bytes = 0;
  for (size_t i = 0; i < N; ++i) {
    const at::TensorBase& operand = operands[i];
    const size_t span = at::detail::computeStorageNbytes(operand.sizes(), operand.strides(), operand.element_size());
    loop.data[i] = host_alias(static_cast<char*>(operand.data_ptr()), span);
    for (int64_t dim = operand.dim() - 1; dim >= 0; --dim) {
      loop.rows.strides[i].push_back(operand.stride(dim) * static_cast<int64_t>(operand.element_size()));
    }
    bytes += span;
  }
  one_row_at_least(loop.rows);
  launch(name, first.device().index(), bytes, std::move(loop));
}
// LITERALINCLUDE END: indexed-launch

}  // namespace openreg
