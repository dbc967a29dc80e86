// Convolution on the CPU, which the fallback cannot handle by itself.
//
// PyTorch's convolution selects an implementation by device. For a device that it does not know it calls
// convolution_overrideable and, for the gradients, convolution_backward_overrideable. Both have a kernel for all
// devices, which raises, so the fallback is never called. Called on any thread, with or without the GIL.
#include "aten/fallback/convolution.h"

#include <ATen/native/CPUFallback.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>

#include "aten/fallback/fallback.h"

namespace openreg {

// LITERALINCLUDE START: convolution-cpu-forward
// aten::convolution takes the same arguments and selects the implementation by their device, which is now the CPU.
at::Tensor convolution_on_cpu(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                              bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  return at::native::call_fallback_fn<&cpu_fallback, at::_ops::convolution>::call(
      input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}
// LITERALINCLUDE END: convolution-cpu-forward

// LITERALINCLUDE START: convolution-cpu-backward
// aten::convolution_backward also takes the sizes of the bias: one element per channel.
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_on_cpu(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> output_mask) {
  return at::native::call_fallback_fn<&cpu_fallback, at::_ops::convolution_backward>::call(
      grad_output, input, weight, at::IntArrayRef(grad_output.size(1)), stride, padding, dilation, transposed,
      output_padding, groups, output_mask);
}
// LITERALINCLUDE END: convolution-cpu-backward

}  // namespace openreg
