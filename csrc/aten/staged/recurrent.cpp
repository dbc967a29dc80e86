// The loops of the LSTM and GRU cells for a build without kernels: a dozen operators each, which fall back to the CPU.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/zeros_like.h>

#include "aten/recurrent.h"

namespace openreg {
namespace {

std::vector<at::Tensor> gate_chunks(const at::Tensor& values, const at::Tensor& bias, int64_t count) {
  return (bias.defined() ? values + bias : values).chunk(count, 1);
}

}  // namespace

void compute_lstm_cell(const at::Tensor& hy, const at::Tensor& cy, const at::Tensor& workspace, const GateInputs& gates,
                       const at::Tensor& cx) {
  const auto from_input = gate_chunks(gates.input, gates.input_bias, 4);
  const auto from_hidden = gate_chunks(gates.hidden, gates.hidden_bias, 4);
  const at::Tensor input = (from_input[0] + from_hidden[0]).sigmoid();
  const at::Tensor forget = (from_input[1] + from_hidden[1]).sigmoid();
  const at::Tensor cell = (from_input[2] + from_hidden[2]).tanh();
  const at::Tensor output = (from_input[3] + from_hidden[3]).sigmoid();
  cy.copy_((forget * cx).addcmul_(input, cell));
  hy.copy_(output * cy.tanh());
  workspace.copy_(at::cat({input, forget, cell, output}, 1));
}

void compute_lstm_cell_backward(const at::Tensor& grad_gates, const at::Tensor& grad_cx, const at::Tensor& grad_hy,
                                const at::Tensor& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
                                const at::Tensor& workspace) {
  const auto kept = workspace.chunk(4, 1);
  const at::Tensor tanh_cell = cy.tanh();
  const at::Tensor grad_hidden = grad_hy.defined() ? grad_hy : at::zeros_like(cx);
  at::Tensor grad_cell = at::tanh_backward(grad_hidden * kept[3], tanh_cell);
  if (grad_cy.defined()) {
    grad_cell += grad_cy;
  }
  grad_cx.copy_(grad_cell * kept[1]);
  grad_gates.copy_(
      at::cat({at::sigmoid_backward(grad_cell * kept[2], kept[0]), at::sigmoid_backward(grad_cell * cx, kept[1]),
               at::tanh_backward(grad_cell * kept[0], kept[2]), at::sigmoid_backward(grad_hidden * tanh_cell, kept[3])},
              1));
}

void compute_gru_cell(const at::Tensor& hy, const at::Tensor& workspace, const GateInputs& gates,
                      const at::Tensor& hx) {
  const auto from_input = gate_chunks(gates.input, gates.input_bias, 3);
  const auto from_hidden = gate_chunks(gates.hidden, gates.hidden_bias, 3);
  const at::Tensor reset = (from_input[0] + from_hidden[0]).sigmoid();
  const at::Tensor update = (from_input[1] + from_hidden[1]).sigmoid();
  const at::Tensor fresh = at::addcmul(from_input[2], reset, from_hidden[2]).tanh();
  hy.copy_(at::lerp(fresh, hx, update));
  workspace.copy_(at::cat({reset, update, fresh, hx, from_hidden[2]}, 1));
}

void compute_gru_cell_backward(const at::Tensor& grad_input_gates, const at::Tensor& grad_hidden_gates,
                               const at::Tensor& grad_hx, const at::Tensor& grad_hy, const at::Tensor& workspace) {
  const auto kept = workspace.chunk(5, 1);
  const at::Tensor grad_fresh = at::tanh_backward(grad_hy * (1 - kept[1]), kept[2]);
  const at::Tensor grad_update = at::sigmoid_backward(grad_hy * (kept[3] - kept[2]), kept[1]);
  const at::Tensor grad_reset = at::sigmoid_backward(grad_fresh * kept[4], kept[0]);
  grad_hx.copy_(grad_hy * kept[1]);
  grad_input_gates.copy_(at::cat({grad_reset, grad_update, grad_fresh}, 1));
  grad_hidden_gates.copy_(at::cat({grad_reset, grad_update, grad_fresh * kept[0]}, 1));
}

}  // namespace openreg
