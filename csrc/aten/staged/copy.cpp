// The strided copy without a kernel: through the host. A new device can use it before it has kernels, and the build
// with HOST_KERNELS=OFF does. It waits for the device.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "aten/strided_copy.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: copy-span-on-host
size_t span_bytes(const at::Tensor& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
}

// A CPU tensor with the same geometry and bits, whose memory holds every byte between the first and the last element,
// gaps included.
at::Tensor span_on_host(const at::Tensor& tensor) {
  const auto elements = static_cast<int64_t>(span_bytes(tensor) / tensor.itemsize());
  at::Tensor span =
      at::empty({elements}, tensor.options().device(c10::kCPU)).as_strided(tensor.sizes(), tensor.strides());
  const DriverCall call("orMemcpyAsync");
  check(orMemcpyAsync(span.mutable_data_ptr(), tensor.const_data_ptr(), span_bytes(tensor), orMemcpyDeviceToHost,
                      current_stream_handle(tensor.device().index())));
  span._set_conj(tensor.is_conj());
  span._set_neg(tensor.is_neg());
  return span;
}
// LITERALINCLUDE END: copy-span-on-host

}  // namespace

// LITERALINCLUDE START: copy-through-host
void strided_copy(const at::Tensor& dst, const at::Tensor& src) {
  const at::Tensor host = span_on_host(dst);
  host.copy_(span_on_host(src));
  const DriverCall call("orMemcpyAsync");
  check(orMemcpyAsync(dst.mutable_data_ptr(), host.const_data_ptr(), span_bytes(dst), orMemcpyHostToDevice,
                      current_stream_handle(dst.device().index())));
}
// LITERALINCLUDE END: copy-through-host

}  // namespace openreg
