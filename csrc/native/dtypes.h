// Which dtypes the kernels of this folder support, and the name of each in the device's language.
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/Scalar.h>

#include <initializer_list>
#include <span>
#include <string>

#include "native/launch_function.h"

namespace openreg::native {

// LITERALINCLUDE START: native-dtype-contract
inline constexpr std::array kNumbers{at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kInt, at::kLong};
inline constexpr std::array kFloats{at::kFloat, at::kHalf, at::kBFloat16, at::kDouble};

using Dtypes = std::span<const at::ScalarType>;

// Whether a dtype is in the list, and the device computes in it: not every device has double.
bool is_native(at::ScalarType dtype, Dtypes dtypes, c10::DeviceIndex device);

// Whether all operands have one native dtype. An input may also be a number of the host, as in x + 1: `dtype`, the one
// to compute in, is that of the tensors.
struct Operands {
  std::initializer_list<const at::Tensor*> tensors;  // the first one is on the device
  at::ScalarType dtype;
};
bool are_native(const Operands& operands, Dtypes dtypes);

// Options of the compiler: "-DDTYPE_FLOAT -Dindex_t=int".
std::string options_for(at::ScalarType dtype, bool index_fits_int);

// Converts a number to compute_t: an argument such as alpha, which raises if it does not fit, or an operand, which is
// converted like a tensor.
Number number_of(const at::Scalar& scalar, at::ScalarType dtype);
Number number_at(const void* operand, at::ScalarType operand_dtype, at::ScalarType dtype);
// The bytes of compute_t.
size_t compute_bytes(at::ScalarType dtype);
// LITERALINCLUDE END: native-dtype-contract

}  // namespace openreg::native
