// The kernels of an LSTM layer. What does not depend on the previous step is one matrix product for all steps. Called
// on any thread, with or without the GIL; the library runs on the device's stream.
#include "kernels/nn/lstm_layer.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/host_view.h"
#include "kernels/launch.h"
#include "kernels/library/library_scope.h"
#include "kernels/nn/lstm_cell.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: lstm-layer-views
LstmLayer on_host(const LstmLayer& layer) {
  return {host_view(layer.input),
          host_view(layer.hx),
          host_view(layer.cx),
          host_view(layer.input_weights),
          host_view(layer.hidden_weights),
          host_view_or_none(layer.input_bias),
          host_view_or_none(layer.hidden_bias),
          layer.reverse};
}

LstmStates on_host(const LstmStates& states) {
  return {host_view(states.output), host_view(states.cells), host_view(states.gates)};
}

// Where step number `number`, in the order of the layer, is in its tensors.
int64_t place(const LstmLayer& layer, int64_t number) {
  return layer.reverse ? layer.input.size(0) - 1 - number : number;
}
// LITERALINCLUDE END: lstm-layer-views

// LITERALINCLUDE START: lstm-layer-forward
struct LstmLayerForward {
  LstmStates states;
  LstmLayer layer;

  void operator()() const {
    const LibraryScope scope;
    at::Tensor all_gates = states.gates.flatten(0, 1);
    at::mm_out(all_gates, layer.input.flatten(0, 1), layer.input_weights.t());
    if (layer.input_bias.defined()) {
      all_gates.add_(layer.input_bias + layer.hidden_bias);
    }
    const at::Tensor weights = layer.hidden_weights.t();
    at::Tensor before = layer.hx;
    at::Tensor cell_before = layer.cx;
    for (int64_t number = 0; number < layer.input.size(0); ++number) {
      const int64_t step = place(layer, number);
      at::Tensor gates = states.gates[step];
      at::Tensor cell = states.cells[step];
      at::Tensor output = states.output[step];
      gates.addmm_(before, weights);
      lstm_step(gates, cell_before, cell, output);
      before = output;
      cell_before = cell;
    }
  }
};
// LITERALINCLUDE END: lstm-layer-forward

// LITERALINCLUDE START: lstm-layer-backward
template <class T>
struct LstmLayerBackward {
  LstmGrads grads;
  at::Tensor grad_output;
  at::Tensor grad_cy;
  LstmStates states;
  LstmLayer layer;

  void operator()() const {
    const LibraryScope scope;
    const at::Tensor grad_gates = at::empty_like(states.gates);
    at::Tensor grad_hidden = at::zeros_like(states.output[0]);
    at::Tensor grad_cell =
        grad_cy.defined() ? grad_cy.clone(at::MemoryFormat::Contiguous) : at::zeros_like(grad_hidden);
    const at::Tensor cx = layer.cx.contiguous();
    const at::Tensor tanh_cells = states.cells.tanh();
    for (int64_t number = layer.input.size(0) - 1; number >= 0; --number) {
      const int64_t step = place(layer, number);
      if (grad_output.defined()) {
        grad_hidden.add_(grad_output[step]);
      }
      const at::Tensor before = number == 0 ? cx : states.cells[place(layer, number - 1)];
      cell_backward(grad_gates[step], grad_cell, grad_hidden, before, tanh_cells[step], states.gates[step]);
      at::mm_out(grad_hidden, grad_gates[step], layer.hidden_weights);
    }
    if (grads.hx.defined()) grads.hx.copy_(grad_hidden);
    if (grads.cx.defined()) grads.cx.copy_(grad_cell);
    store_products(grad_gates);
  }

  // Replaces the gradient of the cell state after a step by that of the one before.
  void cell_backward(const at::Tensor& grad_gates, const at::Tensor& grad_cell, const at::Tensor& grad_hidden,
                     const at::Tensor& cell_before, const at::Tensor& tanh_cell, const at::Tensor& gates) const {
    const LstmCellBackward<T> cell{layer.hx.size(1),
                                   grad_gates.mutable_data_ptr<T>(),
                                   grad_cell.mutable_data_ptr<T>(),
                                   grad_hidden.const_data_ptr<T>(),
                                   grad_cell.const_data_ptr<T>(),
                                   cell_before.const_data_ptr<T>(),
                                   tanh_cell.const_data_ptr<T>(),
                                   gates.const_data_ptr<T>()};
    for_each_unit(layer.hx.size(0), cell);
  }

  // The products over all steps at once.
  void store_products(const at::Tensor& grad_gates) const {
    const at::Tensor all = grad_gates.flatten(0, 1);
    if (grads.input.defined()) {
      at::Tensor grad_input = grads.input.view({all.size(0), -1});
      at::mm_out(grad_input, all, layer.input_weights);
    }
    if (grads.input_weights.defined()) {
      at::Tensor grad_weights = grads.input_weights;
      at::mm_out(grad_weights, all.t(), layer.input.flatten(0, 1));
    }
    if (grads.hidden_weights.defined()) {
      // Each step's gates saw the output of the step before, and the first step's saw hx.
      const int64_t others = layer.input.size(0) - 1;
      const at::Tensor later = grad_gates.narrow(0, layer.reverse ? 0 : 1, others).flatten(0, 1);
      const at::Tensor earlier = states.output.narrow(0, layer.reverse ? 1 : 0, others).flatten(0, 1);
      at::Tensor grad_weights = grads.hidden_weights;
      at::mm_out(grad_weights, grad_gates[place(layer, 0)].t(), layer.hx);
      grad_weights.addmm_(later.t(), earlier);
    }
    if (grads.bias.defined()) {
      at::Tensor grad_bias = grads.bias;
      at::sum_out(grad_bias, all, /*dim=*/0);
    }
  }
};
// LITERALINCLUDE END: lstm-layer-backward

}  // namespace

// LITERALINCLUDE START: lstm-layer-launch
void compute_lstm_layer(const LstmStates& results, const LstmLayer& layer) {
  launch("lstm_layer", layer.input.device().index(), layer.input.nbytes() + 2 * results.gates.nbytes(),
         LstmLayerForward{on_host(results), on_host(layer)});
}

void compute_lstm_layer_backward(const LstmGrads& grads, const at::Tensor& grad_output, const at::Tensor& grad_cy,
                                 const LstmStates& states, const LstmLayer& layer) {
  const LstmGrads results{host_view_or_none(grads.input),
                          host_view_or_none(grads.hx),
                          host_view_or_none(grads.cx),
                          host_view_or_none(grads.input_weights),
                          host_view_or_none(grads.hidden_weights),
                          host_view_or_none(grads.bias)};
  AT_DISPATCH_FLOATING_TYPES(layer.input.scalar_type(), "lstm_layer_backward", [&] {
    launch("lstm_layer_backward", layer.input.device().index(), layer.input.nbytes() + 3 * states.gates.nbytes(),
           LstmLayerBackward<scalar_t>{results, host_view_or_none(grad_output), host_view_or_none(grad_cy),
                                       on_host(states), on_host(layer)});
  });
}
// LITERALINCLUDE END: lstm-layer-launch

}  // namespace openreg
