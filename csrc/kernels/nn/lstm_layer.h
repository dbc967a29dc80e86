// One direction of one layer of an LSTM, over all time steps, as libraries of recurrent networks compute it: one launch
// for the forward, and one for all gradients. For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

// All tensors have one dtype, float or double, and are on one device. The gates come in PyTorch's order: input, forget,
// cell, output.
struct LstmLayer {
  at::Tensor input;  // [steps, batch, columns]; at least one of each
  at::Tensor hx;  // [batch, hidden], the hidden state before the first step
  at::Tensor cx;  // [batch, hidden], the cell state before the first step
  at::Tensor input_weights;  // [4 * hidden, columns]
  at::Tensor hidden_weights;  // [4 * hidden, hidden]
  at::Tensor input_bias;  // [4 * hidden], or undefined, as is the other then
  at::Tensor hidden_bias;
  bool reverse = false;  // the first step is the last of the input
};

// What a forward leaves: contiguous.
struct LstmStates {
  at::Tensor output;  // [steps, batch, hidden], the hidden state after each step
  at::Tensor cells;  // [steps, batch, hidden], the cell state after each step
  at::Tensor gates;  // [steps, batch, 4 * hidden], the values of the gates
};

// Contiguous; undefined if it is not needed. One gradient serves both biases.
struct LstmGrads {
  at::Tensor input;
  at::Tensor hx;
  at::Tensor cx;
  at::Tensor input_weights;
  at::Tensor hidden_weights;
  at::Tensor bias;
};

void compute_lstm_layer(const LstmStates& results, const LstmLayer& layer);

// grad_output is the gradient of output, grad_cy that of the last cell state. One of them may be undefined.
void compute_lstm_layer_backward(const LstmGrads& grads, const at::Tensor& grad_output, const at::Tensor& grad_cy,
                                 const LstmStates& states, const LstmLayer& layer);

}  // namespace openreg
