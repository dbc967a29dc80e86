// openreg::custom_abs on the device: an elementwise kernel for all dtypes and layouts. Called on any thread, with or
// without the GIL; the loop runs on the device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/complex.h>
#include <torch/library.h>

#include <cmath>
#include <type_traits>

#include "aten/elementwise.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: custom-abs-kernel
struct Magnitude {
  // Of the smallest integer, whose absolute value does not fit, the result is that integer, as on the CPU.
  template <class T>
  T operator()(T value) const {
    if constexpr (std::is_unsigned_v<T>) {
      return value;
    } else if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return value < 0 ? static_cast<T>(Unsigned{0} - static_cast<Unsigned>(value)) : value;
    } else {
      return static_cast<T>(std::fabs(static_cast<at::opmath_type<T>>(value)));
    }
  }

  template <class Real>
  Real operator()(c10::complex<Real> value) const {
    using Math = at::opmath_type<Real>;
    return static_cast<Real>(std::hypot(static_cast<Math>(value.real()), static_cast<Math>(value.imag())));
  }
};

// schema: openreg::custom_abs(Tensor input) -> Tensor
at::Tensor custom_abs(const at::Tensor& input) {
  at::Tensor output = at::empty_like(input, input.options().dtype(c10::toRealValueType(input.scalar_type())));
  const at::TensorIterator iter =
      at::TensorIteratorConfig().add_output(output).add_const_input(input).check_all_same_dtype(false).build();
  AT_DISPATCH_V2(input.scalar_type(), "custom_abs", AT_WRAP([&] {
                   using Out = decltype(Magnitude()(scalar_t()));
                   launch_unary<Out, scalar_t>("custom_abs", iter, Magnitude());
                 }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kHalf, at::kBFloat16);
  return output;
}

TORCH_LIBRARY_IMPL(openreg, PrivateUse1, m) { m.impl("custom_abs", custom_abs); }
// LITERALINCLUDE END: custom-abs-kernel

}  // namespace
}  // namespace openreg
