// CPU tensors over the bytes of device tensors: what a kernel of the simulated device computes with, where PyTorch's
// own CPU functions stand for the vendor's library.
//
// For kernel files only (see launch.h).
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "aten/launch.h"

namespace openreg {

// LITERALINCLUDE START: launch-host-view
// A CPU tensor over the bytes of a device tensor, with its lazy bits. Only a kernel may read or write it.
inline at::Tensor host_view(const at::Tensor& tensor) {
  const size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
  const at::TensorOptions options = tensor.options().device(c10::kCPU);
  at::Tensor view =
      bytes == 0 ? at::Tensor(at::detail::empty_strided_cpu(tensor.sizes(), tensor.strides(), options))
                 : at::from_blob(host_alias(tensor.data_ptr(), bytes), tensor.sizes(), tensor.strides(), options);
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}
// LITERALINCLUDE END: launch-host-view

}  // namespace openreg
