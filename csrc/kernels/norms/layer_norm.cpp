// Layer norm and its derivative, on the library, with meta functions of our own (see index_select.cpp). Called on any
// thread, with or without the GIL; the library runs on the device's stream.
#include <ATen/TensorMeta.h>
#include <ATen/native/cpu/mixed_data_type.h>
#include <ATen/native/layer_norm.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "aten/optional_tensor.h"
#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: layer-norm-forward
// schema: aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)
//         -> (Tensor, Tensor, Tensor)
struct LayerNormMeta : at::impl::MetaBase {
  void meta(const at::Tensor& input, at::IntArrayRef normalized_shape, at::OptionalTensorRef weight,
            at::OptionalTensorRef bias, double) {
    const at::Tensor weights = value(weight);
    const at::Tensor biases = value(bias);
    at::native::_check_layer_norm_inputs(input, normalized_shape, weights, biases);
    const bool mixed = at::native::is_mixed_type(input, weights, biases);
    if (mixed) {
      at::native::check_mixed_data_type(input, weights, biases);
    }
    // The mean and deviation of a row keep its dimensions, with size 1.
    at::DimVector rows(input.sizes());
    std::fill(rows.end() - static_cast<std::ptrdiff_t>(normalized_shape.size()), rows.end(), 1);
    const at::TensorOptions statistics = input.options().dtype(at::native::param_scalar_type(input, mixed));
    set_output_raw_strided(0, input.sizes(), {}, input.options());
    set_output_raw_strided(1, rows, {}, statistics);
    set_output_raw_strided(2, rows, {}, statistics);
  }
};

struct LayerNorm : LibraryKernel<LayerNorm, /*kWaits=*/false> {
  using Meta = LayerNormMeta;
  static constexpr auto kName = "native_layer_norm";
  static constexpr auto kOnOneDevice = std::array{"input", "normalized_shape", "weight", "bias", "eps"};
  static constexpr auto kOutputs = 3;

  static void compute(const at::Tensor& input, at::IntArrayRef normalized_shape, const OptionalTensor& weight,
                      const OptionalTensor& bias, double eps, at::Tensor& output, at::Tensor& mean, at::Tensor& rstd) {
    if (mean.numel() > 0) {
      at::native::LayerNormKernel(c10::kCPU, input.contiguous(), dense(value(weight)), dense(value(bias)), mean.numel(),
                                  c10::multiply_integers(normalized_shape), eps, &output, &mean, &rstd);
    }
  }
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> native_layer_norm(const at::Tensor& input,
                                                                 at::IntArrayRef normalized_shape,
                                                                 const OptionalTensor& weight,
                                                                 const OptionalTensor& bias, double eps) {
  return functional<LayerNorm>(input, normalized_shape, weight, bias, eps);
}
// LITERALINCLUDE END: layer-norm-forward

// LITERALINCLUDE START: layer-norm-backward
// schema: aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean,
//         Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
struct LayerNormBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape,
            const at::Tensor& mean, const at::Tensor& rstd, at::OptionalTensorRef weight, at::OptionalTensorRef bias,
            std::array<bool, 3> wanted) {
    const auto rows = at::native::_check_layer_norm_inputs(input, normalized_shape, value(weight), value(bias)).first;
    TORCH_CHECK(grad_out.sizes() == input.sizes() && mean.numel() == rows && rstd.numel() == rows,
                "native_layer_norm_backward: expected a gradient of shape ", input.sizes(), " and statistics of ", rows,
                " rows, but got ", grad_out.sizes(), ", ", mean.sizes(), " and ", rstd.sizes());
    const std::array<at::Tensor, 3> like{input, value(weight), value(bias)};
    for (size_t i = 0; i < like.size(); ++i) {
      if (wanted[i] && like[i].defined()) {
        set_output_raw_strided(static_cast<int64_t>(i), like[i].sizes(), {}, like[i].options());
      }
    }
  }
};

struct LayerNormBackward : LibraryKernel<LayerNormBackward, /*kWaits=*/false> {
  using Meta = LayerNormBackwardMeta;
  static constexpr auto kName = "native_layer_norm_backward";
  static constexpr auto kOnOneDevice =
      std::array{"grad_out", "input", "normalized_shape", "mean", "rstd", "weight", "bias", "output_mask"};
  static constexpr auto kOutputs = 3;

  static void compute(const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape,
                      const at::Tensor& mean, const at::Tensor& rstd, const OptionalTensor& weight,
                      const OptionalTensor&, std::array<bool, 3>, at::Tensor& grad_input, at::Tensor& grad_weight,
                      at::Tensor& grad_bias) {
    if (mean.numel() > 0) {
      at::native::LayerNormBackwardKernel(c10::kCPU, grad_out.contiguous(), input.contiguous(), mean.contiguous(),
                                          rstd.contiguous(), dense(value(weight)), mean.numel(),
                                          c10::multiply_integers(normalized_shape), &grad_input, &grad_weight,
                                          &grad_bias);
      return;
    }
    for (const at::Tensor& grad : {grad_weight, grad_bias}) {
      if (grad.defined()) grad.zero_();  // no rows: the sums are 0
    }
  }
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> native_layer_norm_backward(
    const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape, const at::Tensor& mean,
    const at::Tensor& rstd, const OptionalTensor& weight, const OptionalTensor& bias, std::array<bool, 3> output_mask) {
  return functional<LayerNormBackward>(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask);
}
// LITERALINCLUDE END: layer-norm-backward

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_layer_norm", native_layer_norm);
  m.impl("native_layer_norm_backward", native_layer_norm_backward);
}

}  // namespace
}  // namespace openreg
