// Converts a TensorIterator to the arguments of an elementwise kernel.
#include "native/loops/elementwise.h"

#include "runtime/storage.h"

namespace openreg::native {

// LITERALINCLUDE START: native-elementwise-takes
bool takes(const at::TensorIteratorBase& iter) {
  const at::ScalarType dtype = iter.common_dtype();
  if (!is_native(dtype, kNumbers, iter.device(0).index())) {
    return false;
  }
  for (int operand = 0; operand < iter.ntensors(); ++operand) {
    if (iter.dtype(operand) != dtype && !iter.is_cpu_scalar(operand)) return false;
  }
  return true;
}
// LITERALINCLUDE END: native-elementwise-takes

// LITERALINCLUDE START: native-elementwise-geometry
ElementwiseLaunch plan_elementwise(const at::TensorIteratorBase& iter) {
  ElementwiseLaunch plan{iter.common_dtype(), iter.ndim() <= 1, {}, {}, {}};
  for (int dim = 0; dim < iter.ndim(); ++dim) plan.geometry.add_dimension(iter, dim);
  for (int operand = 0; operand < iter.ntensors(); ++operand) {
    const void* const address = iter.data_ptr(operand);
    if (iter.is_cpu_scalar(operand)) {
      plan.number = number_at(address, iter.dtype(operand), plan.dtype);
      continue;
    }
    check_has_memory(iter.tensor_base(operand));
    plan.data[operand] = static_cast<const char*>(address);
    const bool is_dense = plan.geometry.count == 1 || plan.geometry.strides[operand][0] == 1;
    plan.contiguous = plan.contiguous && is_dense;
  }
  // A function takes a number even if it does not use it.
  if (plan.number.bytes == 0) plan.number = number_of(0, plan.dtype);
  return plan;
}
// LITERALINCLUDE END: native-elementwise-geometry

}  // namespace openreg::native
