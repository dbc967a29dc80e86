// Maps dtypes of the host to types of the device's language.
#include "native/dtypes.h"

#include <c10/core/DynamicCast.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "runtime/properties.h"

namespace openreg::native {
namespace {

template <class Value>
Number of(Value value) {
  Number number;
  number.bytes = sizeof(Value);
  std::memcpy(number.value.data(), &value, sizeof(Value));
  return number;
}

// LITERALINCLUDE START: native-dtypes-names
const char* name_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "FLOAT";
    case at::kHalf:
      return "HALF";
    case at::kBFloat16:
      return "BFLOAT16";
    case at::kDouble:
      return "DOUBLE";
    case at::kInt:
      return "INT";
    case at::kLong:
      return "LONG";
    default:
      TORCH_INTERNAL_ASSERT(false, dtype, " has no name in the device's language");  // NOT PROVEN: unreachable
  }
}
// LITERALINCLUDE END: native-dtypes-names

}  // namespace

// LITERALINCLUDE START: native-dtypes-chosen
bool is_native(at::ScalarType dtype, Dtypes dtypes, c10::DeviceIndex device) {
  return std::ranges::find(dtypes, dtype) != dtypes.end() &&
         (dtype != at::kDouble || device_properties(device).has_fp64 != 0);
}

bool are_native(const Operands& operands, Dtypes dtypes) {
  const at::Tensor& first = **operands.tensors.begin();
  return first.is_privateuseone() && is_native(operands.dtype, dtypes, first.device().index()) &&
         std::ranges::all_of(operands.tensors, [&operands](const at::Tensor* tensor) {
           const bool is_number = tensor->is_cpu() && tensor->dim() == 0;
           return is_number || (tensor->is_privateuseone() && tensor->scalar_type() == operands.dtype);
         });
}
// LITERALINCLUDE END: native-dtypes-chosen

std::string options_for(at::ScalarType dtype, bool index_fits_int) {
  return std::string("-DDTYPE_") + name_of(dtype) + (index_fits_int ? " -Dindex_t=int" : " -Dindex_t=long");
}

// LITERALINCLUDE START: native-dtypes-numbers
Number number_of(const at::Scalar& scalar, at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return of(scalar.to<double>());
    case at::kInt:
      return of(scalar.to<int32_t>());
    case at::kLong:
      return of(scalar.to<int64_t>());
    default:
      return of(scalar.to<float>());
  }
}

Number number_at(const void* operand, at::ScalarType operand_dtype, at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return of(c10::fetch_and_cast<double>(operand_dtype, operand));
    case at::kInt:
      return of(c10::fetch_and_cast<int32_t>(operand_dtype, operand));
    case at::kLong:
      return of(c10::fetch_and_cast<int64_t>(operand_dtype, operand));
    default:
      return of(c10::fetch_and_cast<float>(operand_dtype, operand));
  }
}

size_t compute_bytes(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? sizeof(float) : c10::elementSize(dtype);
}
// LITERALINCLUDE END: native-dtypes-numbers

}  // namespace openreg::native
