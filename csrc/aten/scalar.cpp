// One element to the host: Tensor.item(), bool(tensor), float(tensor) and every `if` on a tensor end here.
// Called on any thread, with or without the GIL; waits for the device.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <array>

#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

// schema: aten::_local_scalar_dense(Tensor self) -> Scalar
at::Scalar _local_scalar_dense(const at::Tensor& self) {
  // The bytes go to the stack, without a CPU tensor of their own. The driver has written pageable memory when it
  // returns, and reports the failure of earlier kernels.
  std::array<std::byte, sizeof(c10::complex<double>)> bytes{};
  check(orMemcpyAsync(bytes.data(), self.const_data_ptr(), self.itemsize(), orMemcpyDeviceToHost,
                      current_stream_handle(self.device().index())));
  return at::_local_scalar_dense(at::from_blob(bytes.data(), {}, self.options().device(c10::kCPU)));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_local_scalar_dense", _local_scalar_dense); }

}  // namespace
}  // namespace openreg
