// The fused cells of LSTM and GRU. torch.nn computes the matrix products of a time step with ordinary operators, and on
// every accelerator calls these for the rest. The CPU has no kernels of these names, so no fallback can serve them.
// Called on any thread, with or without the GIL.
#include "aten/recurrent.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

namespace openreg {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

constexpr int64_t kLstmGates = 4;
constexpr int64_t kGruGates = 3;
constexpr int64_t kGruWorkspace = 5;

// An argument as the loops require it: contiguous. Autograd and the modules pass both absent and undefined tensors.
at::Tensor dense(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined() ? tensor->contiguous() : at::Tensor();
}

// The loops index memory by these sizes and this dtype, so anything else is rejected.
void check_argument(const char* cell, const char* name, const at::Tensor& argument, at::IntArrayRef sizes,
                    const at::Tensor& like) {
  TORCH_CHECK(
      argument.sizes() == sizes && argument.scalar_type() == like.scalar_type() && argument.device() == like.device(),
      "openreg: ", cell, " expects ", name, " of sizes ", sizes, ", ", like.scalar_type(), " on ", like.device(),
      ", got sizes ", argument.sizes(), ", ", argument.scalar_type(), " on ", argument.device());
}

// The gates, `count` per hidden unit, checked against the previous state, whose sizes determine all others.
GateInputs gate_inputs(const char* cell, int64_t count, const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                       const at::Tensor& state, const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  TORCH_CHECK(at::isFloatingType(state.scalar_type()), "openreg: ", cell, " takes floating point tensors, got ",
              state.scalar_type());
  TORCH_CHECK(state.dim() == 2, "openreg: ", cell, " expects a state of sizes [batch, hidden], got ", state.sizes());
  const int64_t columns = count * state.size(1);
  check_argument(cell, "input_gates", input_gates, {state.size(0), columns}, state);
  check_argument(cell, "hidden_gates", hidden_gates, {state.size(0), columns}, state);
  GateInputs gates{input_gates.contiguous(), hidden_gates.contiguous(), dense(input_bias), dense(hidden_bias)};
  TORCH_CHECK(gates.input_bias.defined() == gates.hidden_bias.defined(), "openreg: ", cell,
              " takes two biases or none, got one");
  if (gates.input_bias.defined()) {
    check_argument(cell, "input_bias", gates.input_bias, {columns}, state);
    check_argument(cell, "hidden_bias", gates.hidden_bias, {columns}, state);
  }
  return gates;
}

// LITERALINCLUDE START: recurrent-lstm
// schema: aten::_thnn_fused_lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias=None,
//         Tensor? hidden_bias=None) -> (Tensor, Tensor, Tensor)
std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell(const at::Tensor& input_gates,
                                                                     const at::Tensor& hidden_gates,
                                                                     const at::Tensor& cx,
                                                                     const OptionalTensor& input_bias,
                                                                     const OptionalTensor& hidden_bias) {
  const GateInputs gates =
      gate_inputs("the LSTM cell", kLstmGates, input_gates, hidden_gates, cx, input_bias, hidden_bias);
  at::Tensor hy = at::empty_like(cx, at::MemoryFormat::Contiguous);
  at::Tensor cy = at::empty_like(hy);
  at::Tensor workspace = at::empty_like(gates.input);
  if (cx.numel() > 0) {
    compute_lstm_cell(hy, cy, workspace, gates, cx.contiguous());
  }
  return {hy, cy, workspace};
}

// schema: aten::_thnn_fused_lstm_cell_backward_impl(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy,
//         Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor)
std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell_backward_impl(
    const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
    const at::Tensor& workspace, bool has_bias) {
  const at::Tensor dense_hy = dense(grad_hy);
  const at::Tensor dense_cy = dense(grad_cy);
  if (!dense_hy.defined() && !dense_cy.defined()) {
    return {};
  }
  constexpr const char* kCell = "the backward of the LSTM cell";
  TORCH_CHECK(cx.dim() == 2, "openreg: ", kCell, " expects a state of sizes [batch, hidden], got ", cx.sizes());
  check_argument(kCell, "cy", cy, cx.sizes(), cx);
  check_argument(kCell, "workspace", workspace, {cx.size(0), kLstmGates * cx.size(1)}, cx);
  for (const at::Tensor& grad : {dense_hy, dense_cy}) {
    if (grad.defined()) {
      check_argument(kCell, "a gradient", grad, cx.sizes(), cx);
    }
  }
  at::Tensor grad_gates = at::empty_like(workspace, at::MemoryFormat::Contiguous);
  at::Tensor grad_cx = at::empty_like(cx, at::MemoryFormat::Contiguous);
  if (cx.numel() > 0) {
    compute_lstm_cell_backward(grad_gates, grad_cx, dense_hy, dense_cy, cx.contiguous(), cy.contiguous(),
                               workspace.contiguous());
  }
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0) : at::Tensor()};
}
// LITERALINCLUDE END: recurrent-lstm

// schema: aten::_thnn_fused_gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor hx, Tensor? input_bias=None,
//         Tensor? hidden_bias=None) -> (Tensor, Tensor)
std::tuple<at::Tensor, at::Tensor> _thnn_fused_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                        const at::Tensor& hx, const OptionalTensor& input_bias,
                                                        const OptionalTensor& hidden_bias) {
  const GateInputs gates =
      gate_inputs("the GRU cell", kGruGates, input_gates, hidden_gates, hx, input_bias, hidden_bias);
  at::Tensor hy = at::empty_like(hx, at::MemoryFormat::Contiguous);
  at::Tensor workspace = at::empty({hx.size(0), kGruWorkspace * hx.size(1)}, hx.options());
  if (hx.numel() > 0) {
    compute_gru_cell(hy, workspace, gates, hx.contiguous());
  }
  return {hy, workspace};
}

// schema: aten::_thnn_fused_gru_cell_backward(Tensor grad_hy, Tensor workspace, bool has_bias) -> (Tensor, Tensor,
//         Tensor, Tensor, Tensor)
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> _thnn_fused_gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  constexpr const char* kCell = "the backward of the GRU cell";
  TORCH_CHECK(grad_hy.dim() == 2, "openreg: ", kCell, " expects a gradient of sizes [batch, hidden], got ",
              grad_hy.sizes());
  check_argument(kCell, "workspace", workspace, {grad_hy.size(0), kGruWorkspace * grad_hy.size(1)}, grad_hy);
  at::Tensor grad_input_gates = at::empty({grad_hy.size(0), kGruGates * grad_hy.size(1)}, grad_hy.options());
  at::Tensor grad_hidden_gates = at::empty_like(grad_input_gates);
  at::Tensor grad_hx = at::empty_like(grad_hy, at::MemoryFormat::Contiguous);
  if (grad_hy.numel() > 0) {
    compute_gru_cell_backward(grad_input_gates, grad_hidden_gates, grad_hx, grad_hy.contiguous(),
                              workspace.contiguous());
  }
  return {grad_input_gates, grad_hidden_gates, grad_hx, has_bias ? grad_input_gates.sum(0) : at::Tensor(),
          has_bias ? grad_hidden_gates.sum(0) : at::Tensor()};
}

// LITERALINCLUDE START: recurrent-registration
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", _thnn_fused_lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", _thnn_fused_lstm_cell_backward_impl);
  m.impl("_thnn_fused_gru_cell", _thnn_fused_gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", _thnn_fused_gru_cell_backward);
}
// LITERALINCLUDE END: recurrent-registration

}  // namespace
}  // namespace openreg
