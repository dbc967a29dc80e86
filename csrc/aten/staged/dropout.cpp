// The loops of dropout for a build without kernels: three operators each, which fall back to the CPU.
#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>

#include "aten/dropout.h"

namespace openreg {

void draw_dropout(const at::Tensor& output, const at::Tensor& mask, const at::Tensor& input, double keep_probability,
                  double scale) {
  mask.bernoulli_(keep_probability);
  output.copy_(input.mul(mask).mul_(scale));
}

void apply_dropout(const at::Tensor& result, const at::Tensor& grad, const at::Tensor& mask, double scale) {
  result.copy_(grad.mul(mask).mul_(scale));
}

}  // namespace openreg
