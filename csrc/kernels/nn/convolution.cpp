// Convolution and its derivative: on the library for floating point (see host_library.h), on the CPU for other dtypes.
// Called on any thread, with or without the GIL; the library runs on the device's stream.
#include <ATen/TensorMeta.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "aten/fallback/convolution.h"
#include "aten/optional_tensor.h"
#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {
namespace {

using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// LITERALINCLUDE START: convolution-geometry
// How the filter moves over the input: one number for each spatial dimension. A transposed convolution spreads each
// element of the input over the output, as the derivative of a convolution does.
struct Geometry {
  at::IntArrayRef stride, padding, dilation;
  bool transposed;
  at::IntArrayRef output_padding;
  int64_t groups;

  // The sizes of the output. aten::convolution checks its arguments, but the operator can also be called directly, and
  // the library finds a mismatch only in the middle of the work.
  at::DimVector output_sizes(const at::Tensor& input, const at::Tensor& weight) const {
    const size_t dims = stride.size();
    TORCH_CHECK(dims >= 1 && padding.size() == dims && dilation.size() == dims && output_padding.size() == dims,
                "convolution: stride, padding, dilation and output_padding should have one number for each dimension ",
                "of a sample, but are ", stride, ", ", padding, ", ", dilation, " and ", output_padding);
    TORCH_CHECK(groups > 0 && at_least(1, stride) && at_least(1, dilation), "convolution: groups, stride and dilation ",
                "should be positive, but are ", groups, ", ", stride, " and ", dilation);
    TORCH_CHECK(at_least(0, padding) && at_least(0, output_padding), "convolution: padding and output_padding should ",
                "not be negative, but are ", padding, " and ", output_padding);
    for (size_t i = 0; i < dims && transposed; ++i) {
      TORCH_CHECK(output_padding[i] < std::max(stride[i], dilation[i]), "output padding must be smaller than either ",
                  "stride or dilation, but got ", output_padding, ", ", stride, " and ", dilation);
    }
    TORCH_CHECK(static_cast<size_t>(input.dim()) == dims + 2 && input.dim() == weight.dim() &&
                    input.size(1) == (transposed ? weight.size(0) : weight.size(1) * groups) &&
                    weight.size(0) % groups == 0,
                "convolution: an input of shape ", input.sizes(), " does not go with a weight of shape ",
                weight.sizes(), ", groups ", groups, " and a stride of ", stride);
    const at::DimVector sizes(
        transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                                 dilation, groups)
                   : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation));
    TORCH_CHECK(at_least(1, input.sizes().slice(2)) && at_least(1, weight.sizes().slice(2)) &&
                    at_least(1, at::IntArrayRef(sizes).slice(2)),
                "convolution: an input of shape ", input.sizes(), " and a weight of shape ", weight.sizes(),
                " would give an output of shape ", at::IntArrayRef(sizes));
    return sizes;
  }

 private:
  static bool at_least(int64_t smallest, at::IntArrayRef numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [=](int64_t number) { return number >= smallest; });
  }
};

// The memory format of outputs and gradients: channels last if the input or the weight has it.
at::MemoryFormat memory_format(const at::Tensor& input, const at::Tensor& weight) {
  return at::native::_conv_suggest_memory_format_impl(input, weight, /*enabled=*/true);
}
// LITERALINCLUDE END: convolution-geometry

// LITERALINCLUDE START: convolution-forward
// schema: aten::convolution_overrideable(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding,
//         SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
struct ConvolutionMeta : at::impl::MetaBase {
  void meta(const at::Tensor& input, const at::Tensor& weight, at::OptionalTensorRef bias, at::IntArrayRef stride,
            at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
            int64_t groups) {
    const Geometry geometry{stride, padding, dilation, transposed, output_padding, groups};
    const at::DimVector sizes = geometry.output_sizes(input, weight);
    TORCH_CHECK(!bias.has_value() || (bias->dim() == 1 && bias->size(0) == sizes[1]), "convolution: the bias should ",
                "be a vector of ", sizes[1], " elements, one for each channel of the output");
    set_output_raw_strided(0, sizes, {}, input.options().memory_format(memory_format(input, weight)));
  }
};

struct Convolution : LibraryKernel<Convolution, /*kWaits=*/false> {
  using Meta = ConvolutionMeta;
  static constexpr auto kName = "convolution_overrideable";
  static constexpr auto kOnOneDevice =
      std::array{"input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups"};
  static constexpr auto kOutputs = 1;

  static void compute(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                      at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                      at::IntArrayRef output_padding, int64_t groups, at::Tensor& output) {
    output.copy_(at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups));
  }
};
// LITERALINCLUDE END: convolution-forward

// LITERALINCLUDE START: convolution-backward
// schema: aten::convolution_backward_overrideable(Tensor grad_output, Tensor input, Tensor weight, SymInt[] stride,
//         SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups,
//         bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)
struct ConvolutionBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
            at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
            int64_t groups, std::array<bool, 3> wanted) {
    const Geometry geometry{stride, padding, dilation, transposed, output_padding, groups};
    const at::DimVector sizes = geometry.output_sizes(input, weight);
    TORCH_CHECK(grad_output.sizes() == at::IntArrayRef(sizes), "convolution: the gradient has shape ",
                grad_output.sizes(), ", and the output ", at::IntArrayRef(sizes));
    const at::MemoryFormat format = memory_format(input, weight);
    if (wanted[0]) set_output_raw_strided(0, input.sizes(), {}, input.options().memory_format(format));
    if (wanted[1]) set_output_raw_strided(1, weight.sizes(), {}, weight.options().memory_format(format));
    if (wanted[2]) set_output_raw_strided(2, sizes[1], {}, weight.options());
  }
};

struct ConvolutionBackward : LibraryKernel<ConvolutionBackward, /*kWaits=*/false> {
  using Meta = ConvolutionBackwardMeta;
  static constexpr auto kName = "convolution_backward_overrideable";
  static constexpr auto kOnOneDevice =
      std::array{"grad_output", "input",      "weight",         "stride", "padding",
                 "dilation",    "transposed", "output_padding", "groups", "output_mask"};
  static constexpr auto kOutputs = 3;

  static void compute(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
                      at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                      at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted,
                      at::Tensor& grad_input, at::Tensor& grad_weight, at::Tensor& grad_bias) {
    const auto [of_input, of_weight, of_bias] =
        at::convolution_backward(grad_output, input, weight, at::IntArrayRef(grad_output.size(1)), stride, padding,
                                 dilation, transposed, output_padding, groups, wanted);
    if (wanted[0]) grad_input.copy_(of_input);
    if (wanted[1]) grad_weight.copy_(of_weight);
    if (wanted[2]) grad_bias.copy_(of_bias);
  }
};
// LITERALINCLUDE END: convolution-backward

// LITERALINCLUDE START: convolution-registration
// A convolution library supports some dtypes. This one could do more, but represents one that cannot.
bool library_takes(const at::Tensor& input) { return at::isFloatingType(input.scalar_type()); }

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  if (!library_takes(input)) {
    return convolution_on_cpu(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  }
  return functional<Convolution>(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

ThreeTensors convolution_backward(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
                                  at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                  bool transposed, at::IntArrayRef output_padding, int64_t groups,
                                  std::array<bool, 3> output_mask) {
  if (!library_takes(input)) {
    return convolution_backward_on_cpu(grad_output, input, weight, stride, padding, dilation, transposed,
                                       output_padding, groups, output_mask);
  }
  return functional<ConvolutionBackward>(grad_output, input, weight, stride, padding, dilation, transposed,
                                         output_padding, groups, output_mask);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}
// LITERALINCLUDE END: convolution-registration

}  // namespace
}  // namespace openreg
