// The loops of the LSTM and GRU cells as kernels: one launch for all gates of a time step, or for all their gradients.
#include "aten/recurrent.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>

#include <cmath>
#include <type_traits>

#include "kernels/launch.h"
#include "kernels/nn/lstm_cell.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: recurrent-kernel-gates
// The host address of a tensor, for use inside a kernel; null if it is undefined.
template <class T>
T* cell_memory(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return nullptr;
  }
  if constexpr (std::is_const_v<T>) {
    return host_alias(tensor.const_data_ptr<std::remove_const_t<T>>(), tensor.nbytes());
  } else {
    return host_alias(tensor.mutable_data_ptr<T>(), tensor.nbytes());
  }
}

// A row-major matrix of the gates' inputs, and the bias that is added to each of its rows, or null.
template <class T>
struct GateSums {
  const T* values;
  const T* bias;

  at::opmath_type<T> at(int64_t row, int64_t columns, int64_t column) const {
    using Math = at::opmath_type<T>;
    const Math value = static_cast<Math>(values[row * columns + column]);
    return bias == nullptr ? value : value + static_cast<Math>(bias[column]);
  }
};

template <class Math>
Math logistic(Math value) {
  return 1 / (1 + std::exp(-value));
}

// Queues cell(row, unit) for each row of the batch and each hidden unit: a device with threads runs one for each pair.
template <class Cell>
void launch_cell(const char* name, const at::Tensor& state, size_t bytes, Cell cell) {
  launch(name, state.device().index(), bytes, [cell, rows = state.size(0)] {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t unit = 0; unit < cell.hidden; ++unit) {
        cell(row, unit);
      }
    }
  });
}
// LITERALINCLUDE END: recurrent-kernel-gates

// LITERALINCLUDE START: recurrent-kernel-lstm-forward
// cy = forget * cx + input * cell, hy = output * tanh(cy).
template <class T>
struct LstmCell {
  using Math = at::opmath_type<T>;  // float for half and bfloat16
  int64_t hidden;
  T* hy;
  T* cy;
  T* workspace;
  GateSums<T> from_input;
  GateSums<T> from_hidden;
  const T* cx;

  void operator()(int64_t row, int64_t unit) const {
    const Math input = logistic(sum(row, unit));
    const Math forget = logistic(sum(row, hidden + unit));
    const Math cell = std::tanh(sum(row, 2 * hidden + unit));
    const Math output = logistic(sum(row, 3 * hidden + unit));
    const int64_t i = row * hidden + unit;
    const Math next = forget * static_cast<Math>(cx[i]) + input * cell;
    cy[i] = static_cast<T>(next);
    hy[i] = static_cast<T>(output * std::tanh(next));
    T* const kept = workspace + row * 4 * hidden + unit;
    kept[0] = static_cast<T>(input);
    kept[hidden] = static_cast<T>(forget);
    kept[2 * hidden] = static_cast<T>(cell);
    kept[3 * hidden] = static_cast<T>(output);
  }

  Math sum(int64_t row, int64_t column) const {
    return from_input.at(row, 4 * hidden, column) + from_hidden.at(row, 4 * hidden, column);
  }
};
// LITERALINCLUDE END: recurrent-kernel-lstm-forward

// hy = fresh + update * (hx - fresh). The reset gate scales the hidden part of the new value, including its bias.
template <class T>
struct GruCell {
  using Math = at::opmath_type<T>;
  int64_t hidden;
  T* hy;
  T* workspace;
  GateSums<T> from_input;
  GateSums<T> from_hidden;
  const T* hx;

  void operator()(int64_t row, int64_t unit) const {
    const int64_t columns = 3 * hidden;
    const Math reset = logistic(from_input.at(row, columns, unit) + from_hidden.at(row, columns, unit));
    const Math update =
        logistic(from_input.at(row, columns, hidden + unit) + from_hidden.at(row, columns, hidden + unit));
    const Math recalled = from_hidden.at(row, columns, 2 * hidden + unit);
    const Math fresh = std::tanh(from_input.at(row, columns, 2 * hidden + unit) + reset * recalled);
    const int64_t i = row * hidden + unit;
    hy[i] = static_cast<T>(fresh + update * (static_cast<Math>(hx[i]) - fresh));
    T* const kept = workspace + row * 5 * hidden + unit;
    kept[0] = static_cast<T>(reset);
    kept[hidden] = static_cast<T>(update);
    kept[2 * hidden] = static_cast<T>(fresh);
    kept[3 * hidden] = hx[i];
    kept[4 * hidden] = static_cast<T>(recalled);
  }
};

template <class T>
struct GruCellBackward {
  using Math = at::opmath_type<T>;
  int64_t hidden;
  T* grad_input_gates;
  T* grad_hidden_gates;
  T* grad_hx;
  const T* grad_hy;
  const T* workspace;

  void operator()(int64_t row, int64_t unit) const {
    const T* const kept = workspace + row * 5 * hidden + unit;
    const Math reset = static_cast<Math>(kept[0]);
    const Math update = static_cast<Math>(kept[hidden]);
    const Math fresh = static_cast<Math>(kept[2 * hidden]);
    const Math before = static_cast<Math>(kept[3 * hidden]);
    const Math recalled = static_cast<Math>(kept[4 * hidden]);
    const Math grad_hidden = static_cast<Math>(grad_hy[row * hidden + unit]);
    const Math grad_fresh = grad_hidden * (1 - update) * (1 - fresh * fresh);
    const Math grad_update = grad_hidden * (before - fresh) * update * (1 - update);
    const Math grad_reset = grad_fresh * recalled * reset * (1 - reset);
    grad_hx[row * hidden + unit] = static_cast<T>(grad_hidden * update);
    // Both sums enter a gate with weight 1, except that the reset gate scales the second in the new gate.
    T* const to_input = grad_input_gates + row * 3 * hidden + unit;
    T* const to_hidden = grad_hidden_gates + row * 3 * hidden + unit;
    to_input[0] = to_hidden[0] = static_cast<T>(grad_reset);
    to_input[hidden] = to_hidden[hidden] = static_cast<T>(grad_update);
    to_input[2 * hidden] = static_cast<T>(grad_fresh);
    to_hidden[2 * hidden] = static_cast<T>(grad_fresh * reset);
  }
};

template <class T>
GateSums<T> input_sums(const GateInputs& gates) {
  return {cell_memory<const T>(gates.input), cell_memory<const T>(gates.input_bias)};
}

template <class T>
GateSums<T> hidden_sums(const GateInputs& gates) {
  return {cell_memory<const T>(gates.hidden), cell_memory<const T>(gates.hidden_bias)};
}

}  // namespace

void compute_lstm_cell(const at::Tensor& hy, const at::Tensor& cy, const at::Tensor& workspace, const GateInputs& gates,
                       const at::Tensor& cx) {
  AT_DISPATCH_V2(cx.scalar_type(), "_thnn_fused_lstm_cell", AT_WRAP([&] {
                   launch_cell("_thnn_fused_lstm_cell", cx, 3 * (workspace.nbytes() + cx.nbytes()),
                               LstmCell<scalar_t>{cx.size(1), cell_memory<scalar_t>(hy), cell_memory<scalar_t>(cy),
                                                  cell_memory<scalar_t>(workspace), input_sums<scalar_t>(gates),
                                                  hidden_sums<scalar_t>(gates), cell_memory<const scalar_t>(cx)});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}

void compute_lstm_cell_backward(const at::Tensor& grad_gates, const at::Tensor& grad_cx, const at::Tensor& grad_hy,
                                const at::Tensor& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
                                const at::Tensor& workspace) {
  AT_DISPATCH_V2(cx.scalar_type(), "_thnn_fused_lstm_cell_backward_impl", AT_WRAP([&] {
                   launch_cell("_thnn_fused_lstm_cell_backward_impl", cx, 2 * workspace.nbytes() + 5 * cx.nbytes(),
                               LstmCellBackward<scalar_t>{
                                   cx.size(1), cell_memory<scalar_t>(grad_gates), cell_memory<scalar_t>(grad_cx),
                                   cell_memory<const scalar_t>(grad_hy), cell_memory<const scalar_t>(grad_cy),
                                   cell_memory<const scalar_t>(cx), cell_memory<const scalar_t>(cy),
                                   cell_memory<const scalar_t>(workspace)});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}

void compute_gru_cell(const at::Tensor& hy, const at::Tensor& workspace, const GateInputs& gates,
                      const at::Tensor& hx) {
  AT_DISPATCH_V2(hx.scalar_type(), "_thnn_fused_gru_cell", AT_WRAP([&] {
                   launch_cell("_thnn_fused_gru_cell", hx, workspace.nbytes() + 8 * hx.nbytes(),
                               GruCell<scalar_t>{hx.size(1), cell_memory<scalar_t>(hy),
                                                 cell_memory<scalar_t>(workspace), input_sums<scalar_t>(gates),
                                                 hidden_sums<scalar_t>(gates), cell_memory<const scalar_t>(hx)});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}

void compute_gru_cell_backward(const at::Tensor& grad_input_gates, const at::Tensor& grad_hidden_gates,
                               const at::Tensor& grad_hx, const at::Tensor& grad_hy, const at::Tensor& workspace) {
  AT_DISPATCH_V2(grad_hy.scalar_type(), "_thnn_fused_gru_cell_backward", AT_WRAP([&] {
                   launch_cell("_thnn_fused_gru_cell_backward", grad_hy, workspace.nbytes() + 8 * grad_hy.nbytes(),
                               GruCellBackward<scalar_t>{
                                   grad_hy.size(1), cell_memory<scalar_t>(grad_input_gates),
                                   cell_memory<scalar_t>(grad_hidden_gates), cell_memory<scalar_t>(grad_hx),
                                   cell_memory<const scalar_t>(grad_hy), cell_memory<const scalar_t>(workspace)});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}

}  // namespace openreg
