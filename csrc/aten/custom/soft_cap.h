// The argument checks that the kernels of openreg::soft_cap share on every device.
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

// Throws: for a dtype that is not floating point, and for a cap that is not positive and finite.
void check_soft_cap(const at::Tensor& input, double cap);

// Throws: as check_soft_cap, and when the gradient does not have the sizes and dtype of the output.
void check_soft_cap_backward(const at::Tensor& grad, const at::Tensor& output, double cap);

}  // namespace openreg
