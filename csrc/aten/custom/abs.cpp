// openreg::custom_abs, a custom operator without a derivative: everything except the device's kernel, which is in
// kernels/custom/abs.cpp. Called on any thread, with or without the GIL.
#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace openreg {
namespace {

// schema: openreg::custom_abs(Tensor input) -> Tensor

// LITERALINCLUDE START: custom-abs-cpu
// The CPU kernel makes one program run on both devices, and is what the CPU fallback calls for a device without a
// kernel of its own.
at::Tensor custom_abs_cpu(const at::Tensor& input) { return at::abs(input); }

TORCH_LIBRARY_IMPL(openreg, CPU, m) { m.impl("custom_abs", custom_abs_cpu); }
// LITERALINCLUDE END: custom-abs-cpu

// LITERALINCLUDE START: custom-abs-meta
// Infers sizes, strides and dtype of the result, without data, for tensors on device "meta" and for those that
// torch.compile traces. Must agree with the kernels: empty_like keeps the order of strides, as they do.
at::Tensor custom_abs_meta(const at::Tensor& input) {
  return at::empty_like(input, input.options().dtype(c10::toRealValueType(input.scalar_type())));
}

TORCH_LIBRARY_IMPL(openreg, Meta, m) { m.impl("custom_abs", custom_abs_meta); }
// LITERALINCLUDE END: custom-abs-meta

// LITERALINCLUDE START: custom-abs-autograd
// Declares that there is no derivative: backward() through the operator raises an error. Without these lines PyTorch's
// own fallback for the key only warns, and the gradient is missing.
TORCH_LIBRARY_IMPL(openreg, AutogradPrivateUse1, m) {
  m.impl("custom_abs", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(openreg, AutogradCPU, m) { m.impl("custom_abs", torch::autograd::autogradNotImplementedFallback()); }
// LITERALINCLUDE END: custom-abs-autograd

}  // namespace
}  // namespace openreg
