// The absolute value of one element, of any dtype: the loop body of abs and custom_abs. For kernel files only.
#pragma once

#include <ATen/OpMathType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/complex.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace openreg {

// LITERALINCLUDE START: magnitude-functor
struct Magnitude {
  // For the smallest integer, whose absolute value does not fit, the result is that integer, as on the CPU.
  template <class T>
  T operator()(T value) const {
    if constexpr (std::is_unsigned_v<T>) {
      return value;
    } else if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return value < 0 ? static_cast<T>(Unsigned{0} - static_cast<Unsigned>(value)) : value;
    } else {
      // Clears the sign of -0.0 and NaN too.
      if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>) {
        return T(static_cast<uint16_t>(value.x & 0x7fff), T::from_bits());
      } else {
        using Math = std::conditional_t<std::is_class_v<T>, float, T>;  // float for 8 bits
        return static_cast<T>(std::fabs(static_cast<Math>(value)));
      }
    }
  }

  // The result is real.
  template <class Real>
  Real operator()(c10::complex<Real> value) const {
    using Math = at::opmath_type<Real>;
    return static_cast<Real>(std::hypot(static_cast<Math>(value.real()), static_cast<Math>(value.imag())));
  }
};
// LITERALINCLUDE END: magnitude-functor

}  // namespace openreg
