// Batch norm and its derivative, on the library (see structured.h). Instance norm is a batch norm of another shape.
// Called on any thread, with or without the GIL; the library runs on the device's stream.
#include <ATen/TensorMeta.h>
#include <ATen/native/batch_norm.h>
#include <ATen/native/cpu/mixed_data_type.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_batch_norm_cpu_dispatch.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <utility>

#include "aten/optional_tensor.h"
#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {
namespace {

using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// LITERALINCLUDE START: batch-norm-checks
// The memory format of results and gradients: that of the input, if it is dense.
at::MemoryFormat memory_format(const at::Tensor& input) {
  for (const auto format : {at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::ChannelsLast}) {
    if (input.is_contiguous(format) && !input.is_contiguous()) {
      return format;
    }
  }
  return at::MemoryFormat::Contiguous;
}

// The library accesses one element for each channel, however long the tensor is.
void check_channels(const char* name, const at::Tensor& tensor, int64_t channels) {
  TORCH_CHECK(!tensor.defined() || (tensor.dim() == 1 && tensor.numel() == channels), name, " should contain ",
              channels, " elements in one dimension, not a tensor of shape ", tensor.sizes());
}

// Statistics come in pairs: evaluation needs one pair, training another. The library checks the dtype of the second for
// some layouts only, so a kernel could fail after a call with the same dtypes has passed.
void check_pair(const char* names, const at::Tensor& mean, const at::Tensor& deviation, bool needed) {
  TORCH_CHECK_VALUE(mean.defined() == deviation.defined(), names, " must either both be None or neither be None");
  TORCH_CHECK(!mean.defined() || mean.dtype() == deviation.dtype(), names, " must have one dtype, not ", mean.dtype(),
              " and ", deviation.dtype());
  TORCH_CHECK_VALUE(!needed || mean.defined(), "batch norm was not given ", names, ", and needs them here");
}
// LITERALINCLUDE END: batch-norm-checks

// LITERALINCLUDE START: batch-norm-forward
// schema: aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean,
//         Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
struct BatchNormMeta : at::impl::MetaBase {
  void meta(const at::Tensor& input, at::OptionalTensorRef weight, at::OptionalTensorRef bias,
            at::OptionalTensorRef running_mean, at::OptionalTensorRef running_var, bool training, double, double) {
    const std::array given{value(weight), value(bias), value(running_mean), value(running_var)};
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(input.scalar_type()), "\"batch_norm\" not implemented for '",
                                input.scalar_type(), "'");
    const int64_t channels = input.size(1);
    check_pair("running_mean and running_var", given[2], given[3], !training);
    for (size_t i = 0; i < given.size(); ++i) {
      check_channels(std::array{"weight", "bias", "running_mean", "running_var"}[i], given[i], channels);
    }
    const bool mixed = at::native::is_mixed_type(input, given[0], given[1], given[2], given[3]);
    const at::TensorOptions statistics = input.options().dtype(at::native::param_scalar_type(input, mixed));
    set_output_raw_strided(0, input.sizes(), {}, input.options().memory_format(memory_format(input)));
    for (const int64_t i : {1, 2}) {
      if (training) {
        set_output_raw_strided(i, channels, {}, statistics);
      } else if (!maybe_get_output(i).defined()) {
        set_output_raw_strided(i, 0, {}, statistics);  // If given by out=, it stays as it is.
      }
    }
  }
};

// The running statistics are both arguments and outputs, since the operator modifies them in place.
struct BatchNorm : LibraryKernel<BatchNorm, /*kWaits=*/false> {
  using Meta = BatchNormMeta;
  static constexpr auto kName = "native_batch_norm";
  static constexpr auto kOnOneDevice =
      std::array{"input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"};
  static constexpr auto kOutputs = 5;

  static void compute(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                      const OptionalTensor&, const OptionalTensor&, bool training, double momentum, double eps,
                      at::Tensor& output, at::Tensor& save_mean, at::Tensor& save_invstd,
                      const at::Tensor& running_mean, const at::Tensor& running_var) {
    // The out= overload assumes that input and output are dense and have the same memory format.
    const at::MemoryFormat format = memory_format(input);
    if (input.is_contiguous(format) && output.is_contiguous(format)) {
      at::cpu::native_batch_norm_outf(input, weight, bias, running_mean, running_var, training, momentum, eps, output,
                                      save_mean, save_invstd);
      return;
    }
    const auto [result, mean, invstd] =
        at::cpu::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
    output.copy_(result);
    if (training) {
      save_mean.copy_(mean);
      save_invstd.copy_(invstd);
    }
  }
};
// LITERALINCLUDE END: batch-norm-forward

// LITERALINCLUDE START: batch-norm-statistics
// The outputs of a batch norm: three that it returns, and the caller's running statistics.
class WithStatistics final : public Outputs {
 public:
  WithStatistics(Outputs& returned, const OptionalTensor& mean, const OptionalTensor& variance)
      : returned_(returned), statistics_{value(mean), value(variance)} {}

  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) override {
    returned_.set(i, sizes, strides, options);
  }
  const at::Tensor& get(int64_t i) const override { return i < 3 ? returned_.get(i) : statistics_[i - 3]; }

 private:
  Outputs& returned_;
  std::array<at::Tensor, 2> statistics_;
};

void run_batch_norm(Outputs& returned, const at::Tensor& input, const OptionalTensor& weight,
                    const OptionalTensor& bias, const OptionalTensor& running_mean, const OptionalTensor& running_var,
                    bool training, double momentum, double eps) {
  check_one_device<BatchNorm>(input, weight, bias, running_mean, running_var, training, momentum, eps);
  const OnDevice current(input.device());
  WithStatistics outputs(returned, running_mean, running_var);
  run_structured<BatchNorm>(outputs, input, weight, bias, running_mean, running_var, training, momentum, eps);
}
// LITERALINCLUDE END: batch-norm-statistics

// LITERALINCLUDE START: batch-norm-overloads
ThreeTensors native_batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                               double momentum, double eps) {
  NewOutputs<3> outputs;
  run_batch_norm(outputs, input, weight, bias, running_mean, running_var, training, momentum, eps);
  return outputs.take();
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> native_batch_norm_out(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
    const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training, double momentum, double eps,
    at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd) {
  GivenOutputs<3> outputs({&out, &save_mean, &save_invstd});
  run_batch_norm(outputs, input, weight, bias, running_mean, running_var, training, momentum, eps);
  return std::forward_as_tuple(out, save_mean, save_invstd);
}

// The same operator, with a schema that declares what it writes. Compiled and exported programs call it.
ThreeTensors batch_norm_legit(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                              at::Tensor& running_mean, at::Tensor& running_var, bool training, double momentum,
                              double eps) {
  return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}
std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> batch_norm_legit_out(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, at::Tensor& running_mean,
    at::Tensor& running_var, bool training, double momentum, double eps, at::Tensor& out, at::Tensor& save_mean,
    at::Tensor& save_invstd) {
  return native_batch_norm_out(input, weight, bias, running_mean, running_var, training, momentum, eps, out, save_mean,
                               save_invstd);
}
ThreeTensors batch_norm_no_stats(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                 bool training, double momentum, double eps) {
  return native_batch_norm(input, weight, bias, {}, {}, training, momentum, eps);
}
std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> batch_norm_no_stats_out(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, bool training, double momentum,
    double eps, at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd) {
  return native_batch_norm_out(input, weight, bias, {}, {}, training, momentum, eps, out, save_mean, save_invstd);
}
// This one returns a fourth tensor, which cuDNN uses.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_with_update(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, at::Tensor& running_mean,
    at::Tensor& running_var, double momentum, double eps) {
  return std::tuple_cat(native_batch_norm(input, weight, bias, running_mean, running_var, true, momentum, eps),
                        std::tuple(at::empty({0}, input.options().dtype(at::kByte))));
}
// LITERALINCLUDE END: batch-norm-overloads

// LITERALINCLUDE START: batch-norm-backward
// schema: aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean,
//         Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask)
//         -> (Tensor, Tensor, Tensor)
struct BatchNormBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad_out, const at::Tensor& input, at::OptionalTensorRef weight,
            at::OptionalTensorRef running_mean, at::OptionalTensorRef running_var, at::OptionalTensorRef save_mean,
            at::OptionalTensorRef save_invstd, bool train, double, std::array<bool, 3> wanted) {
    TORCH_CHECK(grad_out.sizes() == input.sizes(), "batch norm: the gradient has shape ", grad_out.sizes(),
                ", and the input ", input.sizes());
    const std::array given{value(weight), value(running_mean), value(running_var), value(save_mean),
                           value(save_invstd)};
    const int64_t channels = input.size(1);
    check_pair("running_mean and running_var", given[1], given[2], !train);
    check_pair("save_mean and save_invstd", given[3], given[4], train);
    for (size_t i = 0; i < (train ? 5 : 3); ++i) {  // in evaluation the last two have no elements
      check_channels(std::array{"weight", "running_mean", "running_var", "save_mean", "save_invstd"}[i], given[i],
                     channels);
    }
    const bool mixed = at::native::is_mixed_type(input, given[0], given[1], given[2], given[3], given[4]);
    if (mixed) {
      at::native::check_mixed_data_type(input, given[0], given[1], given[2], given[3], given[4]);
    }
    const at::TensorOptions parameters = input.options().dtype(at::native::param_scalar_type(input, mixed));
    if (wanted[0]) {
      set_output_raw_strided(0, input.sizes(), {}, input.options().memory_format(memory_format(input)));
    }
    for (const int64_t i : {1, 2}) {
      if (wanted[i]) set_output_raw_strided(i, channels, {}, parameters);
    }
  }
};

struct BatchNormBackward : LibraryKernel<BatchNormBackward, /*kWaits=*/false> {
  using Meta = BatchNormBackwardMeta;
  static constexpr auto kName = "native_batch_norm_backward";
  static constexpr auto kOnOneDevice = std::array{"grad_out",  "input",       "weight", "running_mean", "running_var",
                                                  "save_mean", "save_invstd", "train",  "eps",          "output_mask"};
  static constexpr auto kOutputs = 3;

  static void compute(const at::Tensor& grad_out, const at::Tensor& input, const OptionalTensor& weight,
                      const OptionalTensor& running_mean, const OptionalTensor& running_var,
                      const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train, double eps,
                      std::array<bool, 3>, at::Tensor& grad_input, at::Tensor& grad_weight, at::Tensor& grad_bias) {
    if (input.numel() == 0) {  // PyTorch's kernel divides by the number of elements.
      for (const at::Tensor& grad : {grad_weight, grad_bias}) {
        if (grad.defined()) grad.zero_();
      }
      return;
    }
    const at::MemoryFormat format = memory_format(input);
    at::native::batch_norm_cpu_backward_stub(c10::kCPU, grad_input, grad_weight, grad_bias, grad_out.contiguous(format),
                                             input.contiguous(format), dense(value(weight)), dense(value(running_mean)),
                                             dense(value(running_var)), dense(value(save_mean)),
                                             dense(value(save_invstd)), train, eps);
  }
};

ThreeTensors native_batch_norm_backward(const at::Tensor& grad_out, const at::Tensor& input,
                                        const OptionalTensor& weight, const OptionalTensor& running_mean,
                                        const OptionalTensor& running_var, const OptionalTensor& save_mean,
                                        const OptionalTensor& save_invstd, bool train, double eps,
                                        std::array<bool, 3> output_mask) {
  return functional<BatchNormBackward>(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd,
                                       train, eps, output_mask);
}
// LITERALINCLUDE END: batch-norm-backward

// LITERALINCLUDE START: batch-norm-registration
// The derivative of the overload with four results.
ThreeTensors batch_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                 const OptionalTensor& save_mean, const OptionalTensor& save_var, bool update,
                                 double eps, std::array<bool, 3> output_mask, const at::Tensor&) {
  return native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_var, update,
                                    eps, output_mask);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_batch_norm", native_batch_norm);
  m.impl("native_batch_norm.out", native_batch_norm_out);
  m.impl("_native_batch_norm_legit", batch_norm_legit);
  m.impl("_native_batch_norm_legit.out", batch_norm_legit_out);
  m.impl("_native_batch_norm_legit.no_stats", batch_norm_no_stats);
  m.impl("_native_batch_norm_legit.no_stats_out", batch_norm_no_stats_out);
  m.impl("_batch_norm_with_update", batch_norm_with_update);
  m.impl("native_batch_norm_backward", native_batch_norm_backward);
  m.impl("batch_norm_backward", batch_norm_backward);
}
// LITERALINCLUDE END: batch-norm-registration

}  // namespace
}  // namespace openreg
