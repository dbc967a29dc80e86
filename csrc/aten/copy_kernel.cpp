// The strided copy as a kernel. Its loop is PyTorch's own CPU copy over the device's bytes: it stands for the
// vendor's strided copy kernel, and what surrounds it is what a vendor needs as well.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "aten/launch.h"
#include "aten/strided_copy.h"

namespace openreg {
namespace {

// A CPU tensor over the bytes of a device tensor, with its lazy bits. Only a kernel may read or write it.
at::Tensor host_view(const at::Tensor& tensor) {
  const size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
  at::Tensor view = at::from_blob(host_alias(tensor.data_ptr(), bytes), tensor.sizes(), tensor.strides(),
                                  tensor.options().device(c10::kCPU));
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

}  // namespace

void strided_copy(const at::Tensor& dst, const at::Tensor& src) {
  launch("strided_copy", dst.device().index(), dst.nbytes() + src.nbytes(),
         [dst_view = host_view(dst), src_view = host_view(src)] { dst_view.copy_(src_view); });
}

}  // namespace openreg
