// The sizes and strides of a TensorIterator's operands, as a struct that a kernel takes by value.
#pragma once

#include <ATen/TensorIterator.h>

#include <cstdint>

namespace openreg::native {

// LITERALINCLUDE START: native-geometry-struct
// The struct of prelude.cl, member by member: int64_t is the `long` of the device's language.
struct Geometry {
  static constexpr int kMostDimensions = 16;
  static constexpr int kMostOperands = 3;

  int64_t count = 1;
  int64_t dimensions = 0;
  int64_t sizes[kMostDimensions]{};
  int64_t strides[kMostOperands][kMostDimensions]{};  // in elements; 0 where an operand is broadcast

  void add_dimension(const at::TensorIteratorBase& iter, int dim);
};

// Whether every index, and every offset in elements, fits into an int; with a second geometry, also the sums of its
// offsets and the first one's.
bool fits_int(const Geometry& geometry, const Geometry& added = {});
// LITERALINCLUDE END: native-geometry-struct

}  // namespace openreg::native
