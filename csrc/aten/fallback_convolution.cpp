// Convolution on the CPU: what the fallback cannot do by itself.
//
// PyTorch's convolution looks for an implementation by device, and for one that it does not know it calls
// convolution_overrideable and, for the gradients, convolution_backward_overrideable. Both have a kernel for all
// devices, which raises. So no fallback ever sees them: a backend must register them. Called on any thread, with or
// without the GIL.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "aten/fallback.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: convolution-forward
// schema: aten::convolution_overrideable(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding,
//         SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
//
// aten::convolution has the same arguments, and chooses an implementation for where they are: on the CPU now.
void convolution_overrideable(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const auto convolution = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  cpu_fallback(convolution, stack);
}
// LITERALINCLUDE END: convolution-forward

// LITERALINCLUDE START: convolution-backward
// schema: aten::convolution_backward_overrideable(Tensor grad_output, Tensor input, Tensor weight, SymInt[] stride,
//         SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups,
//         bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)
//
// aten::convolution_backward wants to be told the sizes of the bias, behind the weight: one element for each channel.
void convolution_backward_overrideable(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const auto backward = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
  constexpr size_t kArguments = 10;
  const auto first = stack->end() - kArguments;
  const int64_t channels = first->toTensor().size(1);
  stack->insert(first + 3, c10::List<int64_t>({channels}));
  cpu_fallback(backward, stack);
}
// LITERALINCLUDE END: convolution-backward

// LITERALINCLUDE START: convolution-registration
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_overrideable>());
  m.impl("convolution_backward_overrideable",
         torch::CppFunction::makeFromBoxedFunction<&convolution_backward_overrideable>());
}
// LITERALINCLUDE END: convolution-registration

}  // namespace
}  // namespace openreg
