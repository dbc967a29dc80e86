// Converts the strides of a TensorIterator, which are in bytes, to those of a kernel, which are in elements.
#include "native/geometry.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace openreg::native {

// LITERALINCLUDE START: native-geometry-dimension
void Geometry::add_dimension(const at::TensorIteratorBase& iter, int dim) {
  TORCH_CHECK_NOT_IMPLEMENTED(dimensions < kMostDimensions, "openreg: a kernel of the device takes at most ",
                              kMostDimensions, " dimensions that do not merge; make the operands contiguous");
  sizes[dimensions] = iter.shape()[dim];
  count *= iter.shape()[dim];
  for (int operand = 0; operand < iter.ntensors(); ++operand) {
    strides[operand][dimensions] = iter.strides(operand)[dim] / static_cast<int64_t>(iter.element_size(operand));
  }
  ++dimensions;
}

static int64_t furthest_offset(const Geometry& geometry, int operand) {
  int64_t offset = 0;
  for (int64_t dim = 0; dim < geometry.dimensions; ++dim) {
    offset += std::abs(geometry.strides[operand][dim]) * (geometry.sizes[dim] - 1);
  }
  return offset;
}

bool fits_int(const Geometry& geometry, const Geometry& added) {
  int64_t furthest = std::max(geometry.count, added.count);
  for (int operand = 0; operand < Geometry::kMostOperands; ++operand) {
    furthest = std::max(furthest, furthest_offset(geometry, operand) + furthest_offset(added, operand));
  }
  return furthest <= std::numeric_limits<int32_t>::max();
}
// LITERALINCLUDE END: native-geometry-dimension

}  // namespace openreg::native
