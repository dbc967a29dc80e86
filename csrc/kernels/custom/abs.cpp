// openreg::custom_abs on the device: an elementwise kernel for all dtypes and layouts. Called on any thread, with or
// without the GIL; the loop runs on the device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "kernels/loops/elementwise.h"
#include "kernels/loops/magnitude.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: custom-abs-kernel
// schema: openreg::custom_abs(Tensor input) -> Tensor
at::Tensor custom_abs(const at::Tensor& input) {
  at::Tensor output = at::empty_like(input, input.options().dtype(c10::toRealValueType(input.scalar_type())));
  const at::TensorIterator iter =
      at::TensorIteratorConfig().add_output(output).add_const_input(input).check_all_same_dtype(false).build();
  AT_DISPATCH_V2(input.scalar_type(), "custom_abs", AT_WRAP([&] {
                   using Out = decltype(Magnitude()(scalar_t()));
                   launch_elementwise<Out, scalar_t>("custom_abs", iter, Magnitude());
                 }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kHalf, at::kBFloat16);
  return output;
}

TORCH_LIBRARY_IMPL(openreg, PrivateUse1, m) { m.impl("custom_abs", custom_abs); }
// LITERALINCLUDE END: custom-abs-kernel

}  // namespace
}  // namespace openreg
