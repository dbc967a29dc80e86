// Visits the elements of several operands of one shape, row by row, as every loop of this device does. For kernel files
// only: see Note [Host code as kernels].
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/macros/Macros.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstddef>
#include <cstdint>

// LITERALINCLUDE START: rows-independent
// Before a loop whose iterations are independent, because its operands are identical or disjoint: compilers vectorize
// it. Not "omp simd": with it, g++ keeps a Half or a BFloat16 in memory for each lane, and does not vectorize.
#ifdef __clang__
#define OPENREG_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define OPENREG_INDEPENDENT _Pragma("GCC ivdep")
#endif
// LITERALINCLUDE END: rows-independent

// LITERALINCLUDE START: rows-wide
// Before a function with such a loop: it is compiled a second time, for the wider vector registers of newer processors,
// and the dynamic linker chooses one of the two. The results are the same: AVX2 alone has no fused multiply-add.
#if defined(__x86_64__) && !defined(__clang__)  // clang does not do this for templates
#define OPENREG_WIDE __attribute__((target_clones("default", "avx2")))
#else
#define OPENREG_WIDE
#endif
// LITERALINCLUDE END: rows-wide

namespace openreg {

// LITERALINCLUDE START: rows-walk
// N operands of one shape, dimension by dimension. The first dimension is the fastest one, as in a TensorIterator.
template <size_t N>
class Rows {
 public:
  using Addresses = std::array<char*, N>;
  using Strides = std::array<int64_t, N>;  // bytes

  void add_dimension(int64_t size, const Strides& strides) { dimensions_.push_back({size, strides}); }
  // Operands without dimensions form a row of one element. Call it after adding all dimensions.
  void one_row_at_least() {
    if (dimensions_.empty()) add_dimension(1, {});
  }

  // The number of elements in a row, and the distance between them.
  int64_t count() const { return dimensions_[0].size; }
  int64_t stride(size_t operand) const { return dimensions_[0].strides[operand]; }
  void advance(Addresses& at, int64_t elements = 1) const {
    for (size_t operand = 0; operand < N; ++operand) at[operand] += elements * stride(operand);
  }

  // Calls row(addresses) for each row.
  template <class Row>
  void for_each(const Addresses& first, const Row& row) const {
    visit(dimensions_.size() - 1, first, row);
  }

 private:
  struct Dimension {
    int64_t size;
    Strides strides;
  };

  // Never inlined, least of all into itself: each level would get its own copy of the row's loops.
  template <class Row>
  C10_NOINLINE void visit(size_t dim, Addresses at, const Row& row) const {
    if (dim == 0) {
      row(at);
      return;
    }
    for (int64_t i = 0; i < dimensions_[dim].size; ++i) {
      visit(dim - 1, at, row);
      for (size_t operand = 0; operand < N; ++operand) at[operand] += dimensions_[dim].strides[operand];
    }
  }

  c10::SmallVector<Dimension, 4> dimensions_;
};
// LITERALINCLUDE END: rows-walk

// LITERALINCLUDE START: rows-of-iterator
template <size_t N>
Rows<N> rows_of(const at::TensorIteratorBase& iter) {
  Rows<N> rows;
  for (int dim = 0; dim < iter.ndim(); ++dim) {
    typename Rows<N>::Strides strides;
    for (size_t i = 0; i < N; ++i) strides[i] = iter.strides(static_cast<int64_t>(i))[dim];
    rows.add_dimension(iter.shape()[dim], strides);
  }
  rows.one_row_at_least();
  return rows;
}

// The bytes from the first to the last element of an operand. Requires: it has elements. A broadcast dimension counts
// once, even if it is broadcast to no element.
inline size_t operand_bytes(const at::TensorIteratorBase& iter, int operand) {
  size_t bytes = iter.element_size(operand);
  for (int dim = 0; dim < iter.ndim(); ++dim) {
    const int64_t stride = iter.strides(operand)[dim];
    if (stride != 0) bytes += (iter.shape()[dim] - 1) * stride;
  }
  return bytes;
}
// LITERALINCLUDE END: rows-of-iterator

}  // namespace openreg
