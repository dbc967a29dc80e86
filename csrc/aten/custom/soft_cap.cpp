// openreg::soft_cap, a custom operator whose derivative is an operator too. It limits values smoothly to the open
// interval (-cap, cap), as some language models do with their logits: cap * tanh(input / cap).
//
// This file implements both except for the device's kernels, which are in kernels/custom/soft_cap.cpp. Called on any
// thread, with or without the GIL.
#include "aten/custom/soft_cap.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

namespace openreg {

void check_soft_cap(const at::Tensor& input, double cap) {
  TORCH_CHECK_TYPE(at::isFloatingType(input.scalar_type()), "openreg: soft_cap takes a floating point tensor, got ",
                   input.scalar_type());
  TORCH_CHECK_VALUE(cap > 0 && std::isfinite(cap), "openreg: the cap of soft_cap is a positive finite number, got ",
                    cap);
}

void check_soft_cap_backward(const at::Tensor& grad, const at::Tensor& output, double cap) {
  check_soft_cap(output, cap);
  TORCH_CHECK_VALUE(grad.sym_sizes() == output.sym_sizes() && grad.scalar_type() == output.scalar_type(),
                    "openreg: the gradient of soft_cap has the sizes and dtype of its output, ", output.sym_sizes(),
                    " and ", output.scalar_type(), ", got ", grad.sym_sizes(), " and ", grad.scalar_type());
}

namespace {

// LITERALINCLUDE START: soft-cap-cpu
// schema: openreg::soft_cap(Tensor input, float cap) -> Tensor
at::Tensor soft_cap_cpu(const at::Tensor& input, double cap) {
  check_soft_cap(input, cap);
  return input.contiguous().div(cap).tanh_().mul_(cap);
}

// schema: openreg::soft_cap_backward(Tensor grad, Tensor output, float cap) -> Tensor
//
// The derivative of cap * tanh(x / cap) is 1 - tanh(x / cap)^2, which the output alone determines.
at::Tensor soft_cap_backward_cpu(const at::Tensor& grad, const at::Tensor& output, double cap) {
  check_soft_cap_backward(grad, output, cap);
  const at::Tensor ratio = output.contiguous().div(cap);
  return ratio.mul(ratio).neg_().add_(1).mul_(grad);
}

TORCH_LIBRARY_IMPL(openreg, CPU, m) {
  m.impl("soft_cap", soft_cap_cpu);
  m.impl("soft_cap_backward", soft_cap_backward_cpu);
}
// LITERALINCLUDE END: soft-cap-cpu

// LITERALINCLUDE START: soft-cap-meta
// The result is contiguous, whatever the input is: that is part of the contract, and every kernel keeps it.
at::Tensor soft_cap_meta(const at::Tensor& input, double cap) {
  check_soft_cap(input, cap);
  return at::empty_like(input, at::MemoryFormat::Contiguous);
}

at::Tensor soft_cap_backward_meta(const at::Tensor& grad, const at::Tensor& output, double cap) {
  check_soft_cap_backward(grad, output, cap);
  return at::empty_like(output, at::MemoryFormat::Contiguous);
}

TORCH_LIBRARY_IMPL(openreg, Meta, m) {
  m.impl("soft_cap", soft_cap_meta);
  m.impl("soft_cap_backward", soft_cap_backward_meta);
}
// LITERALINCLUDE END: soft-cap-meta

// LITERALINCLUDE START: soft-cap-autograd
at::Tensor call_soft_cap(const at::Tensor& input, double cap) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("openreg::soft_cap", "")
                             .typed<at::Tensor(const at::Tensor&, double)>();
  return op.call(input, cap);
}

at::Tensor call_soft_cap_backward(const at::Tensor& grad, const at::Tensor& output, double cap) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("openreg::soft_cap_backward", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&, double)>();
  return op.call(grad, output, cap);
}

// Joins the two operators. Both are called through the dispatcher, so that the device of the tensors picks the kernel.
class SoftCap final : public torch::autograd::Function<SoftCap> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& input, double cap) {
    // The same operator, one key further down. Without the guard this function would call itself.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::Tensor output = call_soft_cap(input, cap);
    ctx->save_for_backward({output});
    ctx->saved_data["cap"] = cap;
    return output;
  }

  // One gradient for each argument of forward; a number has none.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const at::Tensor output = ctx->get_saved_variables().front();
    return {call_soft_cap_backward(grads.front(), output, ctx->saved_data["cap"].toDouble()), at::Tensor()};
  }
};

at::Tensor soft_cap_autograd(const at::Tensor& input, double cap) { return SoftCap::apply(input, cap); }

// Autograd is an alias key for AutogradPrivateUse1, AutogradCPU and the autograd keys of all other devices.
TORCH_LIBRARY_IMPL(openreg, Autograd, m) {
  m.impl("soft_cap", soft_cap_autograd);
  // There is no second derivative: requesting one raises an error.
  m.impl("soft_cap_backward", torch::autograd::autogradNotImplementedFallback());
}
// LITERALINCLUDE END: soft-cap-autograd

}  // namespace
}  // namespace openreg
