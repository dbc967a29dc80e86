// The loops of the LSTM and GRU cells. Each function has two implementations, and the build selects one:
// kernels/nn/recurrent.cpp or, with HOST_KERNELS=OFF, aten/staged/recurrent.cpp (composed of other operators).
//
// All four require: one device, one floating-point dtype, contiguous tensors, at least one element. A row is one
// element of the batch. The values of a cell's `hidden` units are stored in columns: the first `hidden` columns of
// gates belong to the first gate, and so on.
#pragma once

#include <ATen/core/TensorBody.h>

namespace openreg {

// The inputs of the gates: two matrix products, and two biases that are both defined or both undefined.
struct GateInputs {
  at::Tensor input;
  at::Tensor hidden;
  at::Tensor input_bias;
  at::Tensor hidden_bias;
};

// Gates: input, forget, cell, output. The workspace keeps their values: rows x 4 * hidden.
void compute_lstm_cell(const at::Tensor& hy, const at::Tensor& cy, const at::Tensor& workspace, const GateInputs& gates,
                       const at::Tensor& cx);

// One of grad_hy and grad_cy may be undefined, which means zeros.
void compute_lstm_cell_backward(const at::Tensor& grad_gates, const at::Tensor& grad_cx, const at::Tensor& grad_hy,
                                const at::Tensor& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
                                const at::Tensor& workspace);

// Gates: reset, update, new. The workspace keeps their values, hx, and the hidden contribution to the new gate: rows x
// 5 * hidden.
void compute_gru_cell(const at::Tensor& hy, const at::Tensor& workspace, const GateInputs& gates, const at::Tensor& hx);

void compute_gru_cell_backward(const at::Tensor& grad_input_gates, const at::Tensor& grad_hidden_gates,
                               const at::Tensor& grad_hx, const at::Tensor& grad_hy, const at::Tensor& workspace);

}  // namespace openreg
