// openreg_stable::rms_norm on the device, between two C interfaces: PyTorch's stable ABI and the driver's. Called on
// any thread, with or without the GIL; the loop runs on the device's stream.
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/Dispatch_v2.h>

#include <new>
#include <string>

#include "driver/openreg.h"
#include "driver/openreg_host_kernels.h"
#include "stable/rms_norm.h"

namespace openreg_stable {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// LITERALINCLUDE START: stable-driver-check
// Throws: with the driver's message, if a call failed.
void check(orError_t error) {
  if (error != orSuccess) {
    const std::string detail = orGetErrorDetail();
    // A reported error is cleared, so that it is not taken for that of a later call.
    static_cast<void>(orGetLastError());
    STD_TORCH_CHECK(false, orGetErrorName(error), ": ", orGetErrorString(error), " (", detail, ")");
  }
}
// LITERALINCLUDE END: stable-driver-check

// LITERALINCLUDE START: stable-launch
// Returns the host address of device memory. Only a kernel may access it.
template <class T>
T* host_alias(T* device_pointer, int64_t count) {
  void* alias = nullptr;
  check(orGetHostAlias(&alias, device_pointer, static_cast<size_t>(count) * sizeof(T)));
  return static_cast<T*>(alias);
}

// Queues the work on the device's current stream and returns. The memory stays valid, although the closure holds no
// tensors, since the allocator reuses it in stream order.
template <class T>
void launch_rows(RmsNormRows<T> work, int32_t device) {
  const int64_t count = work.rows * work.columns;
  work.out = host_alias(work.out, count);
  work.in = host_alias(work.in, count);
  work.weight = host_alias(work.weight, work.columns);
  const auto run = [](void* closure, char*, size_t) noexcept {
    const auto& rows = *static_cast<const RmsNormRows<T>*>(closure);
    rows.run(0, rows.rows);
    return 0;
  };
  const auto keep = [](void* closure) noexcept -> void* {
    return new (std::nothrow) RmsNormRows<T>(*static_cast<RmsNormRows<T>*>(closure));
  };
  const auto destroy = [](void* closure) { delete static_cast<RmsNormRows<T>*>(closure); };
  const torch::stable::accelerator::Stream stream = torch::stable::accelerator::getCurrentStream(device);
  auto* const handle = static_cast<orStream_t>(stream.nativeHandle());
  const orHostKernel kernel{"rms_norm", run, destroy, &work, 2 * static_cast<size_t>(count) * sizeof(T), keep};
  check(orLaunchHostKernel(&kernel, handle));
}
// LITERALINCLUDE END: stable-launch

// LITERALINCLUDE START: stable-kernel
std::string place(const Tensor& tensor) {
  return tensor.is_cpu() ? "cpu" : "openreg:" + std::to_string(tensor.get_device_index());
}

// schema: openreg_stable::rms_norm(Tensor input, Tensor weight, float eps) -> Tensor
Tensor rms_norm(const Tensor& input, const Tensor& weight, double eps) {
  check_rms_norm(input, weight);
  STD_TORCH_CHECK(input.device() == weight.device(), "openreg: the input of rms_norm is on ", place(input),
                  ", its weight on ", place(weight), ": move one to the other");
  const Tensor dense = torch::stable::contiguous(input);
  const Tensor dense_weight = torch::stable::contiguous(weight);
  Tensor output = torch::stable::empty_like(dense);
  if (input.numel() > 0) {
    THO_DISPATCH_V2(input.scalar_type(), "rms_norm", AT_WRAP([&] {
                      launch_rows(rms_norm_rows<scalar_t>(output, dense, dense_weight, eps), input.get_device_index());
                    }),
                    AT_FLOATING_TYPES, ScalarType::Half, ScalarType::BFloat16);
  }
  return output;
}

STABLE_TORCH_LIBRARY_IMPL(openreg_stable, PrivateUse1, m) { m.impl("rms_norm", TORCH_BOX(&rms_norm)); }
// LITERALINCLUDE END: stable-kernel

}  // namespace
}  // namespace openreg_stable
