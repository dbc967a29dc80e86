// Dropout. torch.nn.functional.dropout calls native_dropout on every accelerator, but not on the CPU. Its schema has no
// generator, so the CPU fallback could not tell which one to draw from.
// Called on any thread, with or without the GIL.
#include "aten/dropout.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: dropout-forward
// schema: aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "openreg: the probability of dropout lies between 0 and 1, got ", p);
  TORCH_CHECK(at::isFloatingType(input.scalar_type()) || at::isComplexType(input.scalar_type()),
              "openreg: dropout scales what it keeps, so it takes a floating point or complex tensor, got ",
              input.scalar_type());
  const at::TensorOptions mask_options = input.options().dtype(at::kBool);
  if (!train.value_or(true)) {
    return {input.clone(), at::ones_like(input, mask_options)};
  }
  at::Tensor output = at::empty_like(input);
  at::Tensor mask = at::empty_like(input, mask_options);
  if (input.numel() > 0) {
    draw_dropout(output, mask, input, 1 - p, p == 1 ? 0 : 1 / (1 - p));
  }
  return {output, mask};
}
// LITERALINCLUDE END: dropout-forward

// LITERALINCLUDE START: dropout-backward
// schema: aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor
at::Tensor native_dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double scale) {
  TORCH_CHECK(mask.scalar_type() == at::kBool && mask.sizes() == grad.sizes() && mask.device() == grad.device(),
              "openreg: the mask of dropout is a bool tensor of the gradient's sizes, ", grad.sizes(), " on ",
              grad.device(), ", got ", mask.scalar_type(), " ", mask.sizes(), " on ", mask.device());
  at::Tensor result = at::empty_like(grad);
  if (grad.numel() > 0) {
    apply_dropout(result, grad, mask, scale);
  }
  return result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", native_dropout);
  m.impl("native_dropout_backward", native_dropout_backward);
}
// LITERALINCLUDE END: dropout-backward

}  // namespace
}  // namespace openreg
