// Operators that write a number into a tensor, which may be on the host while the number is on the device
// (`x[0] = y.sum()`), for a build without kernels. They wait for the device.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "aten/fallback/fallback.h"

namespace openreg {
namespace {

// Whether an argument may be copied for the CPU kernel: a number may; a tensor that selects elements to write may not.
bool may_be_copied(const c10::IValue& value) {
  const auto is_on_device = [](const std::optional<at::Tensor>& tensor) {
    return tensor && tensor->is_privateuseone();
  };
  if (value.isOptionalTensorList()) return std::ranges::none_of(value.toOptionalTensorVector(), is_on_device);
  return !value.isTensor() || !is_on_device(value.toTensor()) || value.toTensor().dim() == 0;
}

void write_number(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  if (!arguments.front().toTensor().is_cpu() || !std::ranges::all_of(arguments, may_be_copied)) {
    return cpu_fallback(op, stack);
  }
  for (size_t i = stack->size() - arguments.size(); i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isTensor() && value.toTensor().is_privateuseone()) value = value.toTensor().cpu();
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"fill_.Tensor", "index_fill_.int_Tensor", "masked_fill_.Tensor", "_index_put_impl_"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&write_number>());
  }
}

}  // namespace
}  // namespace openreg
