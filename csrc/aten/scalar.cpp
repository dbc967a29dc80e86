// Copies one element to the host: Tensor.item(), bool(tensor), float(tensor) and every `if` on a tensor end here.
// Called on any thread, with or without the GIL; waits for the device.
#include <ATen/Dispatch_v2.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <array>
#include <cstring>

#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/kernel_error.h"
#include "runtime/storage.h"
#include "runtime/stream.h"
#include "runtime/sync_debug.h"
#include "runtime/trace.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

// schema: aten::_local_scalar_dense(Tensor self) -> Scalar
at::Scalar _local_scalar_dense(const at::Tensor& self) {
  // item() and the rest of the Python API check this first; C++ may call the operator directly.
  TORCH_CHECK(self.numel() > 0, "openreg: _local_scalar_dense was asked for the number in a tensor without elements");
  check_has_memory(self);
  // The bytes are copied to the stack, without a temporary CPU tensor. The driver has written pageable memory when it
  // returns, and reports failures of earlier kernels.
  std::array<std::byte, sizeof(c10::complex<double>)> bytes;
  orStream_t stream = current_stream_handle(self.device().index());
  before_implicit_wait("one element is read, as item(), bool() and float() do", stream);
  wait_without_gil([&] {
    const DriverCall call("orMemcpyAsync");
    wait_for_stream(stream, self.device().index());
    check(orMemcpyAsync(bytes.data(), self.const_data_ptr(), self.itemsize(), orMemcpyDeviceToHost, stream));
  });
  trace(&Tracer::trace_gpu_stream_synchronization, traced(stream));
  raise_kernel_error(self.device().index());  // of the kernel that should have written the number, for example
  at::Scalar value;
  AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense", AT_WRAP([&] {
                   scalar_t element;
                   std::memcpy(&element, bytes.data(), sizeof(element));
                   value = element;
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf, at::kBFloat16, at::kComplexHalf);
  return value;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_local_scalar_dense", _local_scalar_dense); }

}  // namespace
}  // namespace openreg
