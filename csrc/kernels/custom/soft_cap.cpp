// openreg::soft_cap and its derivative on the device: plain loops over contiguous memory, the shortest way from an
// operator to a kernel. Called on any thread, with or without the GIL; the loops run on the device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cmath>

#include "aten/custom/soft_cap.h"
#include "kernels/launch.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: soft-cap-kernel
template <class T>
void launch_soft_cap(const at::Tensor& output, const at::Tensor& input, double cap) {
  using Math = at::opmath_type<T>;  // float for half and bfloat16.
  const size_t bytes = input.nbytes();
  launch("soft_cap", input.device().index(), 2 * bytes,
         [out = host_alias(output.mutable_data_ptr<T>(), bytes), in = host_alias(input.const_data_ptr<T>(), bytes),
          count = input.numel(), limit = static_cast<Math>(cap)] {
           for (int64_t i = 0; i < count; ++i) {
             out[i] = static_cast<T>(limit * std::tanh(static_cast<Math>(in[i]) / limit));
           }
         });
}

// schema: openreg::soft_cap(Tensor input, float cap) -> Tensor
at::Tensor soft_cap(const at::Tensor& input, double cap) {
  check_soft_cap(input, cap);
  at::Tensor output = at::empty_like(input, at::MemoryFormat::Contiguous);
  if (input.numel() > 0) {
    const at::Tensor dense = input.contiguous();
    AT_DISPATCH_V2(input.scalar_type(), "soft_cap", AT_WRAP([&] { launch_soft_cap<scalar_t>(output, dense, cap); }),
                   AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
  }
  return output;
}
// LITERALINCLUDE END: soft-cap-kernel

// LITERALINCLUDE START: soft-cap-backward-kernel
template <class T>
void launch_soft_cap_backward(const at::Tensor& result, const at::Tensor& grad, const at::Tensor& output, double cap) {
  using Math = at::opmath_type<T>;
  const size_t bytes = output.nbytes();
  launch(
      "soft_cap_backward", output.device().index(), 3 * bytes,
      [out = host_alias(result.mutable_data_ptr<T>(), bytes), in = host_alias(grad.const_data_ptr<T>(), bytes),
       capped = host_alias(output.const_data_ptr<T>(), bytes), count = output.numel(), limit = static_cast<Math>(cap)] {
        for (int64_t i = 0; i < count; ++i) {
          const Math ratio = static_cast<Math>(capped[i]) / limit;
          out[i] = static_cast<T>(static_cast<Math>(in[i]) * (1 - ratio * ratio));
        }
      });
}

// schema: openreg::soft_cap_backward(Tensor grad, Tensor output, float cap) -> Tensor
at::Tensor soft_cap_backward(const at::Tensor& grad, const at::Tensor& output, double cap) {
  check_soft_cap_backward(grad, output, cap);
  TORCH_CHECK(grad.device() == output.device(), "openreg: the gradient of soft_cap is on ", grad.device(),
              ", its output on ", output.device(), ": move one to the other");
  at::Tensor result = at::empty_like(output, at::MemoryFormat::Contiguous);
  if (output.numel() > 0) {
    const at::Tensor dense_grad = grad.contiguous();
    const at::Tensor dense = output.contiguous();
    AT_DISPATCH_V2(output.scalar_type(), "soft_cap_backward",
                   AT_WRAP([&] { launch_soft_cap_backward<scalar_t>(result, dense_grad, dense, cap); }),
                   AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
  }
  return result;
}

TORCH_LIBRARY_IMPL(openreg, PrivateUse1, m) {
  m.impl("soft_cap", soft_cap);
  m.impl("soft_cap_backward", soft_cap_backward);
}
// LITERALINCLUDE END: soft-cap-backward-kernel

}  // namespace
}  // namespace openreg
