// Zeros without memory, which derivatives use in place of an absent gradient or tangent. PyTorch's kernels at the
// ZeroTensor key handle such a tensor without a launch. Called on any thread, with or without the GIL.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "runtime/device.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: zero-tensor
// schema: aten::_efficientzerotensor(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None,
//         Device? device=None, bool? pin_memory=None) -> Tensor
// There is no memory to pin, so pin_memory is ignored.
at::Tensor _efficientzerotensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                                std::optional<at::Device> device, std::optional<bool>) {
  at::detail::check_size_nonnegative(size);
  const c10::Device where(c10::kPrivateUse1, resolve_device_index(device.has_value() ? device->index() : -1));
  const caffe2::TypeMeta type = c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype));
  const size_t bytes = at::detail::computeStorageNbytesContiguous(size, type.itemsize());
  // No allocator: this storage must never grow.
  c10::Storage nothing(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, where), nullptr,
                       /*resizable=*/false);
  constexpr c10::DispatchKeySet kKeys({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor});
  at::Tensor zeros = at::detail::make_tensor<c10::TensorImpl>(std::move(nothing), kKeys, type);
  zeros.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return zeros;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_efficientzerotensor", _efficientzerotensor); }
// LITERALINCLUDE END: zero-tensor

}  // namespace
}  // namespace openreg
