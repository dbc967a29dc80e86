// The gradients of one LSTM cell: of a time step alone (recurrent.cpp), and in a whole layer (lstm_layer.cpp). For
// kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/OpMathType.h>

#include <cmath>
#include <cstdint>

namespace openreg {

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
  const T* cy;
  const T* workspace;

  void operator()(int64_t row, int64_t unit) const {
    const T* const kept = workspace + row * 4 * hidden + unit;
    const Math input = static_cast<Math>(kept[0]);
    const Math forget = static_cast<Math>(kept[hidden]);
    const Math cell = static_cast<Math>(kept[2 * hidden]);
    const Math output = static_cast<Math>(kept[3 * hidden]);
    const int64_t i = row * hidden + unit;
    const Math tanh_cell = std::tanh(static_cast<Math>(cy[i]));
    const Math grad_hidden = grad_hy == nullptr ? 0 : static_cast<Math>(grad_hy[i]);
    const Math grad_cell =
        (grad_cy == nullptr ? 0 : static_cast<Math>(grad_cy[i])) + grad_hidden * output * (1 - tanh_cell * tanh_cell);
    grad_cx[i] = static_cast<T>(grad_cell * forget);
    T* const grad = grad_gates + row * 4 * hidden + unit;
    grad[0] = static_cast<T>(grad_cell * cell * input * (1 - input));
    grad[hidden] = static_cast<T>(grad_cell * static_cast<Math>(cx[i]) * forget * (1 - forget));
    grad[2 * hidden] = static_cast<T>(grad_cell * input * (1 - cell * cell));
    grad[3 * hidden] = static_cast<T>(grad_hidden * tanh_cell * output * (1 - output));
  }
};
// LITERALINCLUDE END: recurrent-kernel-lstm-backward

}  // namespace openreg
