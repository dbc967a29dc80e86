// aten::lstm by whole layers. PyTorch composes an LSTM of cells (recurrent.cpp), on every device whose library it does
// not know; this takes the calls that a library supports. Called on any thread, with or without the GIL.
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels/nn/lstm_layer.h"

namespace openreg {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// LITERALINCLUDE START: lstm-takes
// The number of tensors of one direction of a layer in `params`: two of weights, and two of biases or none.
int64_t parameters_of_direction(bool has_biases) { return has_biases ? 4 : 2; }

// Whether these are the sizes of an LSTM without projections. If not, PyTorch's own function says what is wrong.
bool sizes_fit(const at::Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases, int64_t layers,
               int64_t directions, bool batch_first) {
  const int64_t own = parameters_of_direction(has_biases);
  if (input.dim() != 3 || hx.size() != 2 || static_cast<int64_t>(params.size()) != layers * directions * own ||
      hx[0].dim() != 3) {
    return false;
  }
  const int64_t hidden = hx[0].size(2);
  const std::array state{layers * directions, input.size(batch_first ? 0 : 1), hidden};
  bool fit = hx[0].sizes() == state && hx[1].sizes() == state;
  for (int64_t i = 0; fit && i < static_cast<int64_t>(params.size()); i += own) {
    const int64_t columns = i < directions * own ? input.size(2) : directions * hidden;
    fit =
        params[i].sizes() == std::array{4 * hidden, columns} && params[i + 1].sizes() == std::array{4 * hidden, hidden};
    for (int64_t bias = i + 2; bias < i + own; ++bias) {
      fit = fit && params[bias].sizes() == std::array{4 * hidden};
    }
  }
  return fit;
}

// Tensors inside torch.func, torch.compile or forward-mode AD, and under autocast, need the operators that PyTorch
// composes an LSTM of; so do those that are negated when they are read, and zeros without memory: no kernel above
// autograd is given them resolved.
bool is_plain(const at::Tensor& tensor, const at::Tensor& like) {
  return tensor.defined() && !at::isTensorSubclassLike(tensor) && !tensor._fw_grad(/*level=*/0).defined() &&
         !tensor.is_neg() && !tensor._is_zerotensor() && tensor.scalar_type() == like.scalar_type() &&
         tensor.device() == like.device() && tensor.numel() > 0;
}

// Autocast is on where its key is not excluded. at::autocast::is_autocast_enabled asks the same, but its header
// includes every operator, which takes longer to compile than this file.
bool layers_take(const at::Tensor& input, at::TensorList hx, at::TensorList params) {
  const auto fits = [&](const at::Tensor& tensor) { return is_plain(tensor, input); };
  return (input.scalar_type() == at::kFloat || input.scalar_type() == at::kDouble) && fits(input) &&
         std::ranges::all_of(hx, fits) && std::ranges::all_of(params, fits) &&
         c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastPrivateUse1);
}
// LITERALINCLUDE END: lstm-takes

// LITERALINCLUDE START: lstm-function
// One direction of one layer. Returns its output and its last cell state.
class LstmLayerFunction final : public torch::autograd::Function<LstmLayerFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& hx,
                               const at::Tensor& cx, const at::Tensor& input_weights, const at::Tensor& hidden_weights,
                               const std::optional<at::Tensor>& input_bias,
                               const std::optional<at::Tensor>& hidden_bias, bool reverse) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const LstmLayer layer{input,
                          hx,
                          cx,
                          input_weights,
                          hidden_weights,
                          input_bias.value_or(at::Tensor()),
                          hidden_bias.value_or(at::Tensor()),
                          reverse};
    const int64_t hidden = hx.size(1);
    const LstmStates states{at::empty({input.size(0), input.size(1), hidden}, input.options()),
                            at::empty({input.size(0), input.size(1), hidden}, input.options()),
                            at::empty({input.size(0), input.size(1), 4 * hidden}, input.options())};
    compute_lstm_layer(states, layer);
    ctx->save_for_backward({input, hx, cx, input_weights, hidden_weights, layer.input_bias, layer.hidden_bias,
                            states.output, states.cells, states.gates});
    ctx->saved_data["reverse"] = reverse;
    ctx->set_materialize_grads(false);
    // A copy: the program may change it, and the backward needs what the kernel wrote.
    return {states.output, states.cells[reverse ? 0 : -1].clone()};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const LstmLayer layer{saved[0], saved[1], saved[2], saved[3],
                          saved[4], saved[5], saved[6], ctx->saved_data["reverse"].toBool()};
    // The kernel reads memory and returns no tangents, so gradients of is_grads_batched, of forward-mode AD and of a
    // subclass need the composition, too.
    const auto is_absent_or_plain = [&](const at::Tensor& grad) {
      return !grad.defined() || is_plain(grad, layer.input);
    };
    if (at::GradMode::is_enabled() || !std::ranges::all_of(grads, is_absent_or_plain)) {
      return composed_backward(layer, grads, at::GradMode::is_enabled());
    }
    const auto grad_of = [&](size_t argument, const at::Tensor& tensor) {
      return ctx->needs_input_grad(argument) ? at::empty_like(tensor, at::MemoryFormat::Contiguous) : at::Tensor();
    };
    const bool needs_bias = layer.input_bias.defined() && (ctx->needs_input_grad(5) || ctx->needs_input_grad(6));
    const LstmGrads results{grad_of(0, layer.input),
                            grad_of(1, layer.hx),
                            grad_of(2, layer.cx),
                            grad_of(3, layer.input_weights),
                            grad_of(4, layer.hidden_weights),
                            needs_bias ? at::empty_like(layer.input_bias) : at::Tensor()};
    compute_lstm_layer_backward(results, grads[0], grads[1], {saved[7], saved[8], saved[9]}, layer);
    // Two tensors for the two biases: the program may change one of them in place.
    const bool both = needs_bias && ctx->needs_input_grad(5) && ctx->needs_input_grad(6);
    return {results.input,
            results.hx,
            results.cx,
            results.input_weights,
            results.hidden_weights,
            results.bias,
            both ? results.bias.clone() : results.bias,
            at::Tensor()};
  }

 private:
  // With create_graph the gradients must have derivatives themselves. PyTorch's composition of cells has them: computed
  // again, and differentiated.
  //
  // With respect to views made here. Autograd itself adds what reaches a tensor by another path, such as a state that
  // was computed with the same weights, or one weight in two places, and calls the tensor's hooks; a derivative with
  // respect to the tensor would include all that, so that it counted twice.
  static variable_list composed_backward(const LstmLayer& saved, const variable_list& grads, bool create_graph) {
    const at::AutoGradMode recorded(true);
    const auto view = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.view_as(tensor) : tensor; };
    const LstmLayer layer{
        view(saved.input),          view(saved.hx),         view(saved.cx),          view(saved.input_weights),
        view(saved.hidden_weights), view(saved.input_bias), view(saved.hidden_bias), saved.reverse};
    std::vector<at::Tensor> params{layer.input_weights, layer.hidden_weights};
    const bool has_biases = layer.input_bias.defined();
    if (has_biases) params.insert(params.end(), {layer.input_bias, layer.hidden_bias});
    auto [output, hy, cy] = at::native::lstm(layer.reverse ? layer.input.flip(0) : layer.input,
                                             {layer.hx.unsqueeze(0), layer.cx.unsqueeze(0)}, params, has_biases,
                                             /*num_layers=*/1, /*dropout=*/0, /*train=*/true, /*bidirectional=*/false,
                                             /*batch_first=*/false);
    variable_list outputs;
    variable_list given;
    for (const auto& [result, grad] :
         {std::pair(layer.reverse ? output.flip(0) : output, grads[0]), std::pair(cy.squeeze(0), grads[1])}) {
      if (grad.defined()) {
        outputs.push_back(result);
        given.push_back(grad);
      }
    }
    variable_list inputs;
    std::vector<size_t> places;
    const std::array arguments{layer.input,          layer.hx,         layer.cx,         layer.input_weights,
                               layer.hidden_weights, layer.input_bias, layer.hidden_bias};
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].defined() && arguments[i].requires_grad()) {
        inputs.push_back(arguments[i]);
        places.push_back(i);
      }
    }
    const variable_list found =
        torch::autograd::grad(outputs, inputs, given, /*retain_graph=*/true, create_graph, /*allow_unused=*/true);
    variable_list results(arguments.size() + 1);
    for (size_t i = 0; i < places.size(); ++i) {
      results[places[i]] = found[i];
    }
    return results;
  }
};
// LITERALINCLUDE END: lstm-function

// LITERALINCLUDE START: lstm-layers
// schema: aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
//         bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(const at::Tensor& input, at::TensorList hx, at::TensorList params,
                                                    bool has_biases, int64_t num_layers, double dropout, bool train,
                                                    bool bidirectional, bool batch_first) {
  const int64_t directions = bidirectional ? 2 : 1;
  if (!layers_take(input, hx, params) ||
      !sizes_fit(input, hx, params, has_biases, num_layers, directions, batch_first)) {
    return at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first);
  }
  const int64_t own = parameters_of_direction(has_biases);
  at::Tensor sequence = batch_first ? input.transpose(0, 1) : input;
  std::vector<at::Tensor> hy;
  std::vector<at::Tensor> cy;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t state = layer * directions + direction;
      const at::TensorList weights = params.slice(state * own, own);
      const variable_list results = LstmLayerFunction::apply(
          sequence, hx[0][state], hx[1][state], weights[0], weights[1],
          has_biases ? std::optional(weights[2]) : std::nullopt, has_biases ? std::optional(weights[3]) : std::nullopt,
          /*reverse=*/direction == 1);
      outputs.push_back(results[0]);
      hy.push_back(results[0][direction == 1 ? 0 : -1]);
      cy.push_back(results[1]);
    }
    sequence = directions == 1 ? outputs[0] : at::cat(outputs, /*dim=*/2);
    if (train && dropout != 0 && layer + 1 < num_layers) {
      sequence = at::dropout(sequence, dropout, /*train=*/true);
    }
  }
  return {batch_first ? sequence.transpose(0, 1) : sequence, at::stack(hy), at::stack(cy)};
}

// With and without autograd: the function has its derivative with it.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("lstm.input", lstm); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("lstm.input", lstm); }
// LITERALINCLUDE END: lstm-layers

}  // namespace
}  // namespace openreg
