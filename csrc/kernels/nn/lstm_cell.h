// One time step of an LSTM and its gradient: of a cell alone (recurrent.cpp), and in a whole layer (lstm_layer.cpp).
// For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/tanh.h>

#include <cstdint>

#include "kernels/loops/rows.h"

namespace openreg {

// LITERALINCLUDE START: recurrent-kernel-lstm-step
// Replaces the sums of the gates, [batch, 4 * hidden] in the order input, forget, cell, output, by their values:
//   next = forget * before + input * cell,  output = output gate * tanh(next).
inline void lstm_step(const at::Tensor& gates, const at::Tensor& before, at::Tensor& next, at::Tensor& output) {
  const int64_t hidden = before.size(1);
  const at::Tensor input = gates.narrow(1, 0, hidden);
  const at::Tensor forget = gates.narrow(1, hidden, hidden);
  const at::Tensor cell = gates.narrow(1, 2 * hidden, hidden);
  const at::Tensor open = gates.narrow(1, 3 * hidden, hidden);
  gates.narrow(1, 0, 2 * hidden).sigmoid_();
  cell.tanh_();
  open.sigmoid_();
  at::mul_out(next, forget, before).addcmul_(input, cell);
  at::tanh_out(output, next).mul_(open);
}
// LITERALINCLUDE END: recurrent-kernel-lstm-step

// LITERALINCLUDE START: recurrent-kernel-lstm-backward
template <class T>
struct LstmCellBackward {
  using Math = at::opmath_type<T>;
  int64_t hidden;
  T* grad_gates;
  T* grad_cx;
  const T* grad_hy;  // null where the loss does not depend on hy
  const T* grad_cy;  // the same
  const T* cx;
  const Math* tanh_cell;  // of cy; the library is faster at it than a loop over std::tanh
  const T* workspace;

  void operator()(int64_t row, int64_t unit) const {
    const T* const kept = workspace + row * 4 * hidden + unit;
    const Math input = static_cast<Math>(kept[0]);
    const Math forget = static_cast<Math>(kept[hidden]);
    const Math cell = static_cast<Math>(kept[2 * hidden]);
    const Math output = static_cast<Math>(kept[3 * hidden]);
    const int64_t i = row * hidden + unit;
    const Math squashed = tanh_cell[i];
    const Math grad_hidden = grad_hy == nullptr ? 0 : static_cast<Math>(grad_hy[i]);
    const Math grad_cell =
        (grad_cy == nullptr ? 0 : static_cast<Math>(grad_cy[i])) + grad_hidden * output * (1 - squashed * squashed);
    grad_cx[i] = static_cast<T>(grad_cell * forget);
    T* const grad = grad_gates + row * 4 * hidden + unit;
    grad[0] = static_cast<T>(grad_cell * cell * input * (1 - input));
    grad[hidden] = static_cast<T>(grad_cell * static_cast<Math>(cx[i]) * forget * (1 - forget));
    grad[2 * hidden] = static_cast<T>(grad_cell * input * (1 - cell * cell));
    grad[3 * hidden] = static_cast<T>(grad_hidden * squashed * output * (1 - output));
  }
};

// Calls cell(row, unit) for each row of the batch and each hidden unit.
template <class Cell>
void for_each_unit(int64_t rows, Cell cell) {
  for (int64_t row = 0; row < rows; ++row) {
    OPENREG_INDEPENDENT
    for (int64_t unit = 0; unit < cell.hidden; ++unit) cell(row, unit);
  }
}
// LITERALINCLUDE END: recurrent-kernel-lstm-backward

}  // namespace openreg
