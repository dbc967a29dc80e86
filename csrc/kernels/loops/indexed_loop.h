// Kernels that know the number of each element: its index in the tensor's logical, row-major order.
//
// A TensorIterator (elementwise.h) visits elements in the order that suits the memory. Random numbers must not depend
// on the memory layout, so these kernels count elements themselves. For kernel files only: see Note [Host code as
// kernels].
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/TensorBase.h>

#include <array>

#include "kernels/launch.h"
#include "kernels/loops/rows.h"

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
      for (int64_t i = 0; i < rows.count(); ++i) {
        body(at, number++);
        rows.advance(at);
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
  IndexedLoop<N, Body> loop{{}, {}, std::move(body)};
  size_t bytes = 0;
  for (size_t i = 0; i < N; ++i) {
    const at::TensorBase& operand = operands[i];
    const size_t span = at::detail::computeStorageNbytes(operand.sizes(), operand.strides(), operand.element_size());
    loop.data[i] = host_alias(static_cast<char*>(operand.data_ptr()), span);
    bytes += span;
  }
  for (int64_t dim = first.dim() - 1; dim >= 0; --dim) {
    typename Rows<N>::Strides strides;
    for (size_t i = 0; i < N; ++i) {
      strides[i] = operands[i].stride(dim) * static_cast<int64_t>(operands[i].element_size());
    }
    loop.rows.add_dimension(first.size(dim), strides);
  }
  loop.rows.one_row_at_least();
  launch(name, first.device().index(), bytes, std::move(loop));
}
// LITERALINCLUDE END: indexed-launch

}  // namespace openreg
