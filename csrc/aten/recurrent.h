// The loops of the LSTM and GRU cells. Each has two bodies, and the build picks one: kernels/nn/recurrent.cpp
// or, with HOST_KERNELS=OFF, aten/staged/recurrent.cpp (other operators).
//
// All four require: one device, one floating point dtype, contiguous tensors, at least one element. A row is one of the
// batch. What a cell computes for one of its `hidden` units it stores in columns: the first `hidden` columns of gates
// belong to the first gate, and so on.
#pragma once

#include <ATen/core/TensorBody.h>

namespace openreg {

// What goes into the gates: two products of matrices, and two biases that are undefined or both there.
struct GateInputs {
  at::Tensor input;
  at::Tensor hidden;
  at::Tensor input_bias;
  at::Tensor hidden_bias;
};

// Gates: input, forget, cell, output. The workspace keeps their values: rows x 4 * hidden.
void compute_lstm_cell(const at::Tensor& hy, const at::Tensor& cy, const at::Tensor& workspace, const GateInputs& gates,
                       const at::Tensor& cx);

// One of grad_hy and grad_cy may be undefined, which stands for zeros.
void compute_lstm_cell_backward(const at::Tensor& grad_gates, const at::Tensor& grad_cx, const at::Tensor& grad_hy,
                                const at::Tensor& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
                                const at::Tensor& workspace);

// Gates: reset, update, new. The workspace keeps their values, hx, and what hidden adds to the new gate: rows x
// 5 * hidden.
void compute_gru_cell(const at::Tensor& hy, const at::Tensor& workspace, const GateInputs& gates, const at::Tensor& hx);

void compute_gru_cell_backward(const at::Tensor& grad_input_gates, const at::Tensor& grad_hidden_gates,
                               const at::Tensor& grad_hx, const at::Tensor& grad_hy, const at::Tensor& workspace);

}  // namespace openreg
