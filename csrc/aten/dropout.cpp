// Dropout. torch.nn.functional.dropout calls native_dropout on every accelerator, and not on the CPU; and since its
// schema has no generator, the CPU fallback could not tell which one to draw from.
// Called on any thread, with or without the GIL.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

namespace openreg {
namespace {

// schema: aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "openreg: the probability of dropout lies between 0 and 1, got ", p);
  const at::TensorOptions mask_options = input.options().dtype(at::kBool);
  if (!train.value_or(true)) {
    return {input.clone(), at::ones_like(input, mask_options)};
  }
  const double keep = 1 - p;
  // Drawn from the device's generator: this is an operator on a tensor of the device.
  const at::Tensor mask = at::empty_like(input, mask_options).bernoulli_(keep);
  return {input.mul(mask).mul_(keep == 0 ? 0 : 1 / keep), mask};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("native_dropout", native_dropout); }

}  // namespace
}  // namespace openreg
