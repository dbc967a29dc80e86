// One element to the host: Tensor.item(), bool(tensor), float(tensor) and every `if` on a tensor end here.
// Called on any thread, with or without the GIL; waits for the device.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <torch/library.h>

namespace openreg {
namespace {

// schema: aten::_local_scalar_dense(Tensor self) -> Scalar
at::Scalar _local_scalar_dense(const at::Tensor& self) { return at::_local_scalar_dense(self.to(c10::kCPU)); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_local_scalar_dense", _local_scalar_dense); }

}  // namespace
}  // namespace openreg
