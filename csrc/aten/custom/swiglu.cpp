// openreg::swiglu, a custom operator that is only a torch::autograd::Function: the gated unit silu(gate) * up of
// language models. It is composed of PyTorch's operators, so it needs no kernel on any device; what it adds is a
// derivative that saves two tensors for backward and recomputes the third. Called on any thread, with or without the
// GIL.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: swiglu-function
class Swiglu final : public torch::autograd::Function<Swiglu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up) {
    ctx->save_for_backward({gate, up});
    return at::silu(gate).mul(up);
  }

  // silu(x) is x * sigmoid(x). This is composed of differentiable operators too, so that a second derivative exists:
  // aten's own silu_backward has none.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const torch::autograd::variable_list saved = ctx->get_saved_variables();
    const at::Tensor& grad = grads.front();
    const at::Tensor& gate = saved[0];
    const at::Tensor& up = saved[1];
    const at::Tensor sigmoid = at::sigmoid(gate);
    const at::Tensor slope = sigmoid * (1 + gate * (1 - sigmoid));
    // Of complex numbers, PyTorch's gradients are conjugated; conj() of real ones is the tensor itself.
    return {grad * (up * slope).conj(), grad * (gate * sigmoid).conj()};
  }
};

// schema: openreg::swiglu(Tensor gate, Tensor up) -> Tensor
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  TORCH_CHECK_VALUE(gate.sym_sizes() == up.sym_sizes(), "openreg: gate and up of swiglu have the same sizes, got ",
                    gate.sym_sizes(), " and ", up.sym_sizes());
  return Swiglu::apply(gate, up);
}

TORCH_LIBRARY_IMPL(openreg, CompositeImplicitAutograd, m) { m.impl("swiglu", swiglu); }
// LITERALINCLUDE END: swiglu-function

}  // namespace
}  // namespace openreg
