// What nn.SyncBatchNorm requires of a device: batch norm in parts, so that processes can exchange their statistics in
// between. PyTorch has these operators for CUDA alone. Here they are composed of other operators, each of which runs on
// the device's stream. Called on any thread, with or without the GIL.
//
// Statistics are float for 16-bit inputs, and have the input's dtype otherwise. Channels are dimension 1, as in every
// batch norm.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/full.h>
#include <ATen/ops/var_mean.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "aten/optional_tensor.h"
#include "runtime/device.h"

namespace openreg {
namespace {

using TwoTensors = std::tuple<at::Tensor, at::Tensor>;

// LITERALINCLUDE START: sync-norm-shapes
// The input in the dtype of its statistics.
at::Tensor in_statistics_dtype(const at::Tensor& input) {
  TORCH_CHECK(input.dim() >= 2 && at::isFloatingType(input.scalar_type()), "batch norm: expected an input of floating ",
              "point with at least 2 dimensions, but got ", input.scalar_type(), " of shape ", input.sizes());
  return at::isReducedFloatingType(input.scalar_type()) ? input.to(at::kFloat) : input;
}

// All dimensions except the channels.
at::DimVector but_channels(const at::Tensor& input) {
  at::DimVector dims;
  for (int64_t i = 0; i < input.dim(); ++i) {
    if (i != 1) dims.push_back(i);
  }
  return dims;
}

// One number per channel, in the input's dtype, shaped to broadcast against the input.
at::Tensor beside(const at::Tensor& channels, const at::Tensor& input) {
  TORCH_CHECK(channels.dim() == 1 && channels.size(0) == input.size(1), "batch norm: expected one number for each of ",
              input.size(1), " channels, but got shape ", channels.sizes());
  at::DimVector sizes(input.dim(), 1);
  sizes[1] = channels.size(0);
  return channels.to(input.scalar_type()).view(sizes);
}
// LITERALINCLUDE END: sync-norm-shapes

// LITERALINCLUDE START: sync-norm-statistics
// schema: aten::batch_norm_stats(Tensor input, float eps) -> (Tensor, Tensor)
//
// The statistics of this process alone: the mean, and 1 / sqrt(variance + eps).
TwoTensors batch_norm_stats(const at::Tensor& input, double eps) {
  const c10::OptionalDeviceGuard guard(unless_current(input.device()));
  const auto [variance, mean] =
      at::var_mean(in_statistics_dtype(input), but_channels(input), /*correction=*/at::Scalar(0));
  return {mean, (variance + eps).rsqrt()};
}

// schema: aten::batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum)
//         -> (Tensor, Tensor)
TwoTensors batch_norm_update_stats(const at::Tensor& input, const OptionalTensor& running_mean,
                                   const OptionalTensor& running_var, double momentum) {
  const c10::OptionalDeviceGuard guard(unless_current(input.device()));
  const auto [variance, mean] =
      at::var_mean(in_statistics_dtype(input), but_channels(input), /*correction=*/at::Scalar(0));
  const double count = static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
  // The running variance is the unbiased estimate, since the input is a sample.
  if (value(running_mean).defined()) running_mean->lerp_(mean.to(running_mean->dtype()), momentum);
  if (value(running_var).defined()) {
    running_var->lerp_((variance * (count / (count - 1))).to(running_var->dtype()), momentum);
  }
  return {mean, variance};
}
// LITERALINCLUDE END: sync-norm-statistics

// LITERALINCLUDE START: sync-norm-gather
// schema: aten::batch_norm_gather_stats_with_counts(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean,
//         Tensor? running_var, float momentum, float eps, Tensor counts) -> (Tensor, Tensor)
//
// mean, invstd: [processes, channels]; counts: [processes], the number of values behind each mean. Returns mean and
// invstd over all processes: the variance is that within the processes plus that of their means.
TwoTensors batch_norm_gather_stats_with_counts(const at::Tensor& input, const at::Tensor& mean,
                                               const at::Tensor& invstd, const OptionalTensor& running_mean,
                                               const OptionalTensor& running_var, double momentum, double eps,
                                               const at::Tensor& counts) {
  const c10::OptionalDeviceGuard guard(unless_current(input.device()));
  TORCH_CHECK(mean.dim() == 2 && mean.sizes() == invstd.sizes() && counts.numel() == mean.size(0), "batch norm: ",
              "expected mean and invstd of shape [processes, channels], and a count for each process, but got shapes ",
              mean.sizes(), ", ", invstd.sizes(), " and ", counts.sizes());
  const at::Tensor count = counts.to(mean.dtype()).view({-1, 1});
  const at::Tensor total = count.sum();
  const at::Tensor mean_of_all = (mean * count).sum(0) / total;
  const at::Tensor within = invstd.pow(-2) - eps;
  const at::Tensor squares = ((within + (mean - mean_of_all).square()) * count).sum(0);
  if (value(running_mean).defined()) running_mean->lerp_(mean_of_all.to(running_mean->dtype()), momentum);
  if (value(running_var).defined()) running_var->lerp_((squares / (total - 1)).to(running_var->dtype()), momentum);
  return {mean_of_all, (squares / total + eps).rsqrt()};
}

// schema: aten::batch_norm_gather_stats(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean,
//         Tensor? running_var, float momentum, float eps, int count) -> (Tensor, Tensor)
TwoTensors batch_norm_gather_stats(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
                                   const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                   double momentum, double eps, int64_t count) {
  const at::Tensor counts = at::full({mean.size(0)}, count, mean.options());
  // Qualified, since at:: has functions of these names, and finds them by the arguments if all headers are included.
  return openreg::batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps,
                                                      counts);
}
// LITERALINCLUDE END: sync-norm-gather

// LITERALINCLUDE START: sync-norm-forward
// schema: aten::batch_norm_elemt(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor invstd, float eps)
//         -> Tensor
at::Tensor batch_norm_elemt(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                            const at::Tensor& mean, const at::Tensor& invstd, double) {
  const c10::OptionalDeviceGuard guard(unless_current(input.device()));
  const at::Tensor x = in_statistics_dtype(input);
  at::Tensor result = (x - beside(mean, x)) * beside(invstd, x);
  if (value(weight).defined()) result *= beside(*weight, x);
  if (value(bias).defined()) result += beside(*bias, x);
  return result.to(input.scalar_type());
}

// schema: aten::batch_norm_elemt.out(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor invstd, float eps,
//         *, Tensor(a!) out) -> Tensor(a!)
at::Tensor& batch_norm_elemt_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                 const at::Tensor& mean, const at::Tensor& invstd, double eps, at::Tensor& out) {
  const at::Tensor result = openreg::batch_norm_elemt(input, weight, bias, mean, invstd, eps);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}
// LITERALINCLUDE END: sync-norm-forward

// LITERALINCLUDE START: sync-norm-backward
// schema: aten::batch_norm_backward_reduce(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd, Tensor? weight,
//         bool input_g, bool weight_g, bool bias_g) -> (Tensor, Tensor, Tensor, Tensor)
//
// Returns the sums that the processes add up, of the gradient and of gradient * (input - mean), and this process's
// gradients of weight and bias. Results that are not requested are undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_backward_reduce(
    const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
    const OptionalTensor& weight, bool input_g, bool weight_g, bool bias_g) {
  const c10::OptionalDeviceGuard guard(unless_current(input.device()));
  const at::Tensor x = in_statistics_dtype(input);
  const at::Tensor gradient = in_statistics_dtype(grad_out);
  const at::DimVector dims = but_channels(input);
  const at::ScalarType parameters = (value(weight).defined() ? *weight : mean).scalar_type();
  const at::Tensor sum = gradient.sum(dims);
  const at::Tensor moment = (gradient * (x - beside(mean, x))).sum(dims);
  std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> results;
  if (input_g) {
    std::get<0>(results) = sum;
    std::get<1>(results) = moment;
  }
  if (weight_g) std::get<2>(results) = (moment * invstd).to(parameters);
  if (bias_g) std::get<3>(results) = sum.to(parameters);
  return results;
}

// schema: aten::batch_norm_backward_elemt(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd, Tensor? weight,
//         Tensor sum_dy, Tensor sum_dy_xmu, Tensor count) -> Tensor
//
// The sums, mean and invstd cover all processes; count has one element per process.
at::Tensor batch_norm_backward_elemt(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean,
                                     const at::Tensor& invstd, const OptionalTensor& weight, const at::Tensor& sum_dy,
                                     const at::Tensor& sum_dy_xmu, const at::Tensor& count) {
  const c10::OptionalDeviceGuard guard(unless_current(input.device()));
  const at::Tensor x = in_statistics_dtype(input);
  const at::Tensor total = count.sum().to(x.scalar_type());
  const at::Tensor slope = sum_dy_xmu * invstd.square();
  at::Tensor scale = invstd;
  if (value(weight).defined()) scale = scale * weight->to(scale.dtype());
  const at::Tensor centred = x - beside(mean, x);
  const at::Tensor result =
      (in_statistics_dtype(grad_out) - (beside(sum_dy, x) + centred * beside(slope, x)) / total) * beside(scale, x);
  return result.to(input.scalar_type());
}
// LITERALINCLUDE END: sync-norm-backward

// LITERALINCLUDE START: sync-norm-registration
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("batch_norm_stats", batch_norm_stats);
  m.impl("batch_norm_update_stats", batch_norm_update_stats);
  m.impl("batch_norm_gather_stats", batch_norm_gather_stats);
  m.impl("batch_norm_gather_stats_with_counts", batch_norm_gather_stats_with_counts);
  m.impl("batch_norm_elemt", batch_norm_elemt);
  m.impl("batch_norm_elemt.out", batch_norm_elemt_out);
  m.impl("batch_norm_backward_reduce", batch_norm_backward_reduce);
  m.impl("batch_norm_backward_elemt", batch_norm_backward_elemt);
}
// LITERALINCLUDE END: sync-norm-registration

}  // namespace
}  // namespace openreg
