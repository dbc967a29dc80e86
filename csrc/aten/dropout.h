// The two loops of dropout. Each has two implementations, and the build selects one: kernels/random/dropout.cpp or,
// with HOST_KERNELS=OFF, aten/staged/dropout.cpp (composed of other operators).
#pragma once

#include <ATen/core/TensorBody.h>

namespace openreg {

// Sets mask to true with probability `keep_probability`, drawn from the device's default generator, and output to
// input * mask * scale. Requires: one device, the same sizes, at least one element, a bool mask.
void draw_dropout(const at::Tensor& output, const at::Tensor& mask, const at::Tensor& input, double keep_probability,
                  double scale);

// Sets result to grad * mask * scale. Requires: as above.
void apply_dropout(const at::Tensor& result, const at::Tensor& grad, const at::Tensor& mask, double scale);

}  // namespace openreg
