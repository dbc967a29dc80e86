// CPU tensors over the bytes of device tensors: kernels that are host code pass them to PyTorch's CPU functions, which
// take the place of a vendor's library.
//
// For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include "kernels/launch.h"

namespace openreg {

// LITERALINCLUDE START: launch-host-view
// A CPU tensor over the bytes of a device tensor, with the same lazy bits. Only a kernel may read or write it.
inline at::Tensor host_view(const at::Tensor& tensor) {
  const size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
  void* const data = bytes == 0 ? nullptr : host_alias(tensor.data_ptr(), bytes);
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(data, c10::kCPU)),  // without an owner
      c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}
// LITERALINCLUDE END: launch-host-view

inline at::Tensor host_view_or_none(const at::Tensor& tensor) { return tensor.defined() ? host_view(tensor) : tensor; }

}  // namespace openreg
