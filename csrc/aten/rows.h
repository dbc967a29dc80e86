// The elements of several operands of one shape, row by row: how every loop of this device walks through memory.
// For kernel files only (see launch.h).
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/util/DimVector.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace openreg {

// LITERALINCLUDE START: rows-walk
// N operands of one shape. The first dimension is the fastest one, as in a TensorIterator.
template <size_t N>
struct Rows {
  using Addresses = std::array<char*, N>;

  at::DimVector shape;                   // never empty: an operand without dimensions is a row of one element
  std::array<at::DimVector, N> strides;  // bytes

  // Calls row(addresses) for each row; it has shape[0] elements.
  template <class Row>
  void for_each(const Addresses& first, const Row& row) const {
    visit(shape.size() - 1, first, row);
  }

 private:
  template <class Row>
  void visit(size_t dim, Addresses at, const Row& row) const {
    if (dim == 0) {
      row(at);
      return;
    }
    for (int64_t i = 0; i < shape[dim]; ++i) {
      visit(dim - 1, at, row);
      for (size_t operand = 0; operand < N; ++operand) at[operand] += strides[operand][dim];
    }
  }
};
// LITERALINCLUDE END: rows-walk

// LITERALINCLUDE START: rows-of-iterator
// What has no dimensions has one element.
template <size_t N>
void one_row_at_least(Rows<N>& rows) {
  if (rows.shape.empty()) {
    rows.shape.push_back(1);
    for (at::DimVector& strides : rows.strides) strides.push_back(0);
  }
}

template <size_t N>
Rows<N> rows_of(const at::TensorIteratorBase& iter) {
  Rows<N> rows{at::DimVector(iter.shape()), {}};
  for (size_t i = 0; i < N; ++i) rows.strides[i] = iter.strides(static_cast<int64_t>(i));
  one_row_at_least(rows);
  return rows;
}

// The bytes from the first to the last element of an operand.
inline size_t operand_bytes(const at::TensorIteratorBase& iter, int operand) {
  size_t bytes = iter.element_size(operand);
  for (int dim = 0; dim < iter.ndim(); ++dim) {
    bytes += (iter.shape()[dim] - 1) * iter.strides(operand)[dim];
  }
  return bytes;
}
// LITERALINCLUDE END: rows-of-iterator

}  // namespace openreg
