// The LSTM and GRU cells as kernels: one launch for all gates of a time step, or for all their gradients. The library
// computes the gates, a loop their gradients.
#include "aten/recurrent.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

#include <type_traits>

#include "kernels/host_view.h"
#include "kernels/launch.h"
#include "kernels/library/library_scope.h"
#include "kernels/loops/rows.h"
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

// Queues cell(row, unit) for each row of the batch and each hidden unit: a device with threads runs one for each pair.
template <class Cell>
void launch_cell(const char* name, const at::Tensor& state, size_t bytes, Cell cell) {
  launch(name, state.device().index(), bytes, [cell, rows = state.size(0)] { for_each_unit(rows, cell); });
}
// LITERALINCLUDE END: recurrent-kernel-gates

// LITERALINCLUDE START: recurrent-kernel-sums
// What is added up for the gates of a step: [batch, gates * hidden], and a bias for all rows, or undefined.
struct GateSums {
  at::Tensor values;
  at::Tensor bias;

  // In the precision of the computation: float for half and bfloat16.
  at::Tensor wide() const {
    const at::Tensor sums = values.to(at::toOpMathType(values.scalar_type()));
    return bias.defined() ? sums + bias : sums;
  }
};

GateSums input_sums(const GateInputs& gates) { return {host_view(gates.input), host_view_or_none(gates.input_bias)}; }

GateSums hidden_sums(const GateInputs& gates) {
  return {host_view(gates.hidden), host_view_or_none(gates.hidden_bias)};
}
// LITERALINCLUDE END: recurrent-kernel-sums

// LITERALINCLUDE START: recurrent-kernel-lstm-forward
struct LstmCell {
  at::Tensor hy;
  at::Tensor cy;
  at::Tensor workspace;
  GateSums from_input;
  GateSums from_hidden;
  at::Tensor cx;

  void operator()() const {
    const LibraryScope scope;
    const at::ScalarType math = at::toOpMathType(cx.scalar_type());
    // The results themselves, if their dtype is wide enough to compute in: then to() returns the same tensor.
    at::Tensor gates = workspace.to(math);
    at::Tensor cell = cy.to(math);
    at::Tensor output = hy.to(math);
    at::add_out(gates, from_input.wide(), from_hidden.wide());
    lstm_step(gates, cx.to(math), cell, output);
    workspace.copy_(gates);  // does nothing if both are the same tensor
    cy.copy_(cell);
    hy.copy_(output);
  }
};
// LITERALINCLUDE END: recurrent-kernel-lstm-forward

// hy = fresh + update * (hx - fresh). The reset gate scales the hidden part of the new value, including its bias.
struct GruCell {
  at::Tensor hy;
  at::Tensor workspace;  // [batch, 5 * hidden]: reset, update, fresh, hx, and the hidden part of the new value
  GateSums from_input;
  GateSums from_hidden;
  at::Tensor hx;

  void operator()() const {
    const LibraryScope scope;
    const int64_t hidden = hx.size(1);
    const at::ScalarType math = at::toOpMathType(hx.scalar_type());
    const at::Tensor of_input = from_input.wide();
    const at::Tensor of_hidden = from_hidden.wide();
    const at::Tensor recalled = of_hidden.narrow(1, 2 * hidden, hidden);
    const at::Tensor kept = workspace.to(math);  // as in the LSTM cell
    const at::Tensor reset = kept.narrow(1, 0, hidden);
    const at::Tensor update = kept.narrow(1, hidden, hidden);
    at::Tensor both = kept.narrow(1, 0, 2 * hidden);
    at::Tensor fresh = kept.narrow(1, 2 * hidden, hidden);
    at::Tensor output = hy.to(math);
    at::add_out(both, of_input.narrow(1, 0, 2 * hidden), of_hidden.narrow(1, 0, 2 * hidden)).sigmoid_();
    at::mul_out(fresh, reset, recalled).add_(of_input.narrow(1, 2 * hidden, hidden)).tanh_();
    kept.narrow(1, 3 * hidden, hidden).copy_(hx);
    kept.narrow(1, 4 * hidden, hidden).copy_(recalled);
    at::sub_out(output, hx.to(math), fresh).mul_(update).add_(fresh);
    workspace.copy_(kept);
    hy.copy_(output);
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

}  // namespace

// LITERALINCLUDE START: recurrent-kernel-lstm-launch
void compute_lstm_cell(const at::Tensor& hy, const at::Tensor& cy, const at::Tensor& workspace, const GateInputs& gates,
                       const at::Tensor& cx) {
  launch("_thnn_fused_lstm_cell", cx.device().index(), 3 * (workspace.nbytes() + cx.nbytes()),
         LstmCell{host_view(hy), host_view(cy), host_view(workspace), input_sums(gates), hidden_sums(gates),
                  host_view(cx)});
}

void compute_lstm_cell_backward(const at::Tensor& grad_gates, const at::Tensor& grad_cx, const at::Tensor& grad_hy,
                                const at::Tensor& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
                                const at::Tensor& workspace) {
  AT_DISPATCH_V2(cx.scalar_type(), "_thnn_fused_lstm_cell_backward_impl", AT_WRAP([&] {
                   using Math = at::opmath_type<scalar_t>;
                   LstmCellBackward<scalar_t> cell{cx.size(1),
                                                   cell_memory<scalar_t>(grad_gates),
                                                   cell_memory<scalar_t>(grad_cx),
                                                   cell_memory<const scalar_t>(grad_hy),
                                                   cell_memory<const scalar_t>(grad_cy),
                                                   cell_memory<const scalar_t>(cx),
                                                   /*tanh_cell=*/nullptr,  // computed by the kernel
                                                   cell_memory<const scalar_t>(workspace)};
                   launch("_thnn_fused_lstm_cell_backward_impl", cx.device().index(),
                          2 * workspace.nbytes() + 5 * cx.nbytes(), [cell, cy = host_view(cy)]() mutable {
                            const LibraryScope scope;
                            const at::Tensor tanh_cell = cy.to(c10::CppTypeToScalarType<Math>::value).tanh();
                            cell.tanh_cell = tanh_cell.const_data_ptr<Math>();
                            for_each_unit(cy.size(0), cell);
                          });
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}
// LITERALINCLUDE END: recurrent-kernel-lstm-launch

void compute_gru_cell(const at::Tensor& hy, const at::Tensor& workspace, const GateInputs& gates,
                      const at::Tensor& hx) {
  launch("_thnn_fused_gru_cell", hx.device().index(), workspace.nbytes() + 8 * hx.nbytes(),
         GruCell{host_view(hy), host_view(workspace), input_sums(gates), hidden_sums(gates), host_view(hx)});
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
