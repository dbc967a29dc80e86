// Group norm and its derivative, on the library (see structured.h). Called on any thread, with or without the GIL; the
// library runs on the device's stream.
#include <ATen/TensorMeta.h>
#include <ATen/native/cpu/mixed_data_type.h>
#include <ATen/native/group_norm.h>
#include <torch/library.h>

#include <array>
#include <tuple>

#include "aten/optional_tensor.h"
#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {
namespace {

using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// LITERALINCLUDE START: group-norm-forward
// The caller passes the geometry of the input, and the library does not check it.
void check_group_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, int64_t samples,
                      int64_t channels, int64_t positions, int64_t groups) {
  TORCH_CHECK(groups > 0, "Expected num groups to be greater than 0, got ", groups);
  TORCH_CHECK(channels % groups == 0, "Expected number of channels in input to be divisible by num_groups, but got ",
              "input of shape ", input.sizes(), " and num_groups=", groups);
  TORCH_CHECK(input.numel() == samples * channels * positions, "group norm: ", samples, " samples with ", channels,
              " channels of ", positions, " positions were said to be in an input of shape ", input.sizes());
  for (const at::Tensor& tensor : {weight, bias}) {
    TORCH_CHECK(!tensor.defined() || (tensor.dim() == 1 && tensor.numel() == channels), "Expected weight and bias to ",
                "be vectors of size equal to the number of channels in input, but got one of shape ",
                tensor.defined() ? tensor.sizes() : at::IntArrayRef(), " and input of shape ", input.sizes());
  }
}

// schema: aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW,
//         int group, float eps) -> (Tensor, Tensor, Tensor)
struct GroupNormMeta : at::impl::MetaBase {
  void meta(const at::Tensor& input, at::OptionalTensorRef weight, at::OptionalTensorRef bias, int64_t samples,
            int64_t channels, int64_t positions, int64_t groups, double) {
    const at::Tensor weights = value(weight);
    const at::Tensor biases = value(bias);
    check_group_norm(input, weights, biases, samples, channels, positions, groups);
    const bool mixed = at::native::is_mixed_type(input, weights, biases);
    if (mixed) {
      at::native::check_mixed_data_type(input, weights, biases);
    }
    const at::TensorOptions statistics = input.options().dtype(at::native::param_scalar_type(input, mixed));
    set_output_raw_strided(0, input.sizes(), {}, input.options().memory_format(input.suggest_memory_format()));
    set_output_raw_strided(1, {samples, groups}, {}, statistics);
    set_output_raw_strided(2, {samples, groups}, {}, statistics);
  }
};

struct GroupNorm : LibraryKernel<GroupNorm, /*kWaits=*/false> {
  using Meta = GroupNormMeta;
  static constexpr auto kName = "native_group_norm";
  static constexpr auto kOnOneDevice = std::array{"input", "weight", "bias", "N", "C", "HxW", "group", "eps"};
  static constexpr auto kOutputs = 3;

  static void compute(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                      int64_t samples, int64_t channels, int64_t positions, int64_t groups, double eps,
                      at::Tensor& output, at::Tensor& mean, at::Tensor& rstd) {
    at::native::GroupNormKernel(c10::kCPU, input.contiguous(input.suggest_memory_format()), dense(value(weight)),
                                dense(value(bias)), samples, channels, positions, groups, eps, output, mean, rstd);
  }
};

ThreeTensors native_group_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               int64_t samples, int64_t channels, int64_t positions, int64_t groups, double eps) {
  return functional<GroupNorm>(input, weight, bias, samples, channels, positions, groups, eps);
}
// LITERALINCLUDE END: group-norm-forward

// LITERALINCLUDE START: group-norm-backward
// schema: aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight,
//         SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
struct GroupNormBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& rstd,
            at::OptionalTensorRef weight, int64_t samples, int64_t channels, int64_t positions, int64_t groups,
            std::array<bool, 3> wanted) {
    check_group_norm(input, value(weight), {}, samples, channels, positions, groups);
    TORCH_CHECK(grad_out.sizes() == input.sizes(), "group norm: the gradient has shape ", grad_out.sizes(),
                ", and the input ", input.sizes());
    for (const at::Tensor& statistic : {mean, rstd}) {
      TORCH_CHECK(statistic.numel() == samples * groups, "group norm: mean and rstd have ", samples * groups,
                  " elements, one for each group of each sample, and not shape ", statistic.sizes());
    }
    const bool mixed = at::native::is_mixed_type(input, mean, rstd);
    if (mixed) {
      at::native::check_mixed_data_type(input, mean, rstd);
    }
    if (wanted[0]) {
      set_output_raw_strided(0, input.sizes(), {}, input.options().memory_format(input.suggest_memory_format()));
    }
    for (const int64_t i : {1, 2}) {
      if (wanted[i]) set_output_raw_strided(i, channels, {}, mean.options());
    }
  }
};

struct GroupNormBackward : LibraryKernel<GroupNormBackward, /*kWaits=*/false> {
  using Meta = GroupNormBackwardMeta;
  static constexpr auto kName = "native_group_norm_backward";
  static constexpr auto kOnOneDevice =
      std::array{"grad_out", "input", "mean", "rstd", "weight", "N", "C", "HxW", "group", "output_mask"};
  static constexpr auto kOutputs = 3;

  static void compute(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean,
                      const at::Tensor& rstd, const OptionalTensor& weight, int64_t samples, int64_t channels,
                      int64_t positions, int64_t groups, std::array<bool, 3>, at::Tensor& grad_input,
                      at::Tensor& grad_weight, at::Tensor& grad_bias) {
    const at::MemoryFormat format = input.suggest_memory_format();
    at::native::GroupNormBackwardKernel(c10::kCPU, grad_out.contiguous(format), input.contiguous(format),
                                        mean.contiguous(), rstd.contiguous(), dense(value(weight)), samples, channels,
                                        positions, groups, grad_input, grad_weight, grad_bias);
  }
};

ThreeTensors native_group_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean,
                                        const at::Tensor& rstd, const OptionalTensor& weight, int64_t samples,
                                        int64_t channels, int64_t positions, int64_t groups,
                                        std::array<bool, 3> output_mask) {
  return functional<GroupNormBackward>(grad_out, input, mean, rstd, weight, samples, channels, positions, groups,
                                       output_mask);
}
// LITERALINCLUDE END: group-norm-backward

// LITERALINCLUDE START: group-norm-registration
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_group_norm", native_group_norm);
  m.impl("native_group_norm_backward", native_group_norm_backward);
}
// LITERALINCLUDE END: group-norm-registration

}  // namespace
}  // namespace openreg
