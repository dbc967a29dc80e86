// Copies on one device between tensors of any strides and dtypes. The function has two implementations, and the build
// selects one: kernels/library/copy.cpp or, with HOST_KERNELS=OFF, aten/staged/copy.cpp (through the host).
#pragma once

#include <ATen/core/TensorBody.h>

namespace openreg {

// Requires: the same sizes, one device, no element of dst written twice. Converts the dtype, and applies and undoes
// the lazy conjugate and negative bits of both.
void strided_copy(const at::Tensor& dst, const at::Tensor& src);

}  // namespace openreg
