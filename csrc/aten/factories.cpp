// Factories: the two operators that allocate every tensor. All others (zeros, randn, clone ...) reach them.
// Called on any thread, with or without the GIL.
#include "aten/factories.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "runtime/allocator.h"
#include "runtime/device.h"

namespace openreg {
namespace {

// Both create strided tensors: other layouts have dispatch keys of their own and never come here.
constexpr c10::DispatchKeySet kKeys{c10::DispatchKey::PrivateUse1};

// The argument parser accepts pin_memory for any device, although only CPU tensors can be pinned.
void refuse_pinning(std::optional<bool> pin_memory) {
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory),
              "openreg: only CPU tensors can be pinned: leave pin_memory out, or device");
}

// LITERALINCLUDE START: factories-filled
// With torch.utils.deterministic, a program that reads uninitialized memory reads the same values each time.
at::Tensor filled(at::Tensor empty) {
  const at::Context& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(empty);
  }
  return empty;
}
// LITERALINCLUDE END: factories-filled

// LITERALINCLUDE START: factories-empty
// schema: aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None,
//         Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                               std::optional<at::Device> device, std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> memory_format) {
  refuse_pinning(pin_memory);
  // The allocator allocates on the current device. The guard also refuses an index that is out of range.
  const c10::OptionalDeviceGuard guard(unless_current(device));
  return filled(at::detail::empty_generic(size, &allocator(), kKeys, c10::dtype_or_default(dtype), memory_format));
}
// LITERALINCLUDE END: factories-empty

// schema: aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None,
//         Device? device=None, bool? pin_memory=None) -> Tensor
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool> pin_memory) {
  refuse_pinning(pin_memory);
  const c10::OptionalDeviceGuard guard(unless_current(device));
  return filled(at::detail::empty_strided_generic(size, stride, &allocator(), kKeys, c10::dtype_or_default(dtype)));
}

// LITERALINCLUDE START: factories-registration
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
}
// LITERALINCLUDE END: factories-registration

}  // namespace

at::Tensor new_tensor(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::detail::empty_generic(sizes, &allocator(), kKeys, c10::typeMetaToScalarType(options.dtype()),
                                   options.memory_format_opt());
}

at::Tensor new_strided_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  return at::detail::empty_strided_generic(sizes, strides, &allocator(), kKeys,
                                           c10::typeMetaToScalarType(options.dtype()));
}

}  // namespace openreg
