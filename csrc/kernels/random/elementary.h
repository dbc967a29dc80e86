// Logarithm, sine and cosine without a branch, a table or a call, so that compilers vectorize loops that use them. They
// are series that converge fast, because their argument is made small first. For kernel files only.
#pragma once

#include <c10/macros/Macros.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

namespace openreg {

// LITERALINCLUDE START: elementary-logarithm
// The natural logarithm. Requires: x is positive, finite and not denormal.
//
// x = m * 2^exponent, with m between sqrt(1/2) and sqrt(2), and log m = 2 (s + s^3/3 + s^5/5 + ...), where
// s = (m - 1) / (m + 1) lies between -0.172 and 0.172. The first term that is left out is smaller than the rounding.
template <class Real>
C10_ALWAYS_INLINE Real series_log(Real x) {
  using Int = std::conditional_t<std::is_same_v<Real, float>, int32_t, int64_t>;
  constexpr int kFractionBits = std::numeric_limits<Real>::digits - 1;
  constexpr int kTerms = std::is_same_v<Real, float> ? 5 : 11;
  const Int bits = std::bit_cast<Int>(x);
  const Int exponent = (bits - std::bit_cast<Int>(std::numbers::sqrt2_v<Real> / 2)) >> kFractionBits;
  const Real m = std::bit_cast<Real>(bits - (exponent << kFractionBits));
  const Real s = (m - 1) / (m + 1);
  Real rest = 0;
#pragma GCC unroll 16
  for (int k = kTerms; k > 0; --k) rest = (rest + Real(2) / (2 * k + 1)) * (s * s);
  return static_cast<Real>(exponent) * std::numbers::ln2_v<Real> + (2 * s + s * rest);
}
// LITERALINCLUDE END: elementary-logarithm

// LITERALINCLUDE START: elementary-circle
template <class Real>
struct PointOnCircle {
  Real cosine;
  Real sine;
};

// The point on the unit circle at a random angle: `bits`, read as a fraction of a full turn.
//
// The nearest multiple of a quarter turn is exact in the bits. What is left is at most an eighth of a turn, for which
// few terms of both series are enough: cos x = 1 - x^2/2 (1 - x^2/12 (1 - ...)), sin x = x (1 - x^2/6 (1 - ...)).
template <class Real, class Bits>
C10_ALWAYS_INLINE PointOnCircle<Real> point_on_circle(Bits bits) {
  constexpr int kBits = std::numeric_limits<Bits>::digits;
  constexpr int kTerms = std::is_same_v<Real, float> ? 5 : 9;
  const Bits quarters = (bits + (Bits{1} << (kBits - 3))) >> (kBits - 2);
  const auto rest = static_cast<std::make_signed_t<Bits>>(bits - (quarters << (kBits - 2)));
  const Real x = static_cast<Real>(rest) * (std::numbers::pi_v<Real> / (Bits{1} << (kBits - 1)));
  Real cosine = 1;
  Real sine = 1;
#pragma GCC unroll 16
  for (int k = kTerms; k > 0; --k) {
    cosine = 1 - x * x * (Real(1) / (2 * k * (2 * k - 1))) * cosine;
    sine = 1 - x * x * (Real(1) / (2 * k * (2 * k + 1))) * sine;
  }
  sine *= x;
  // A quarter turn takes (c, s) to (-s, c).
  const bool odd = (quarters & 1) != 0;
  const Real across = odd ? sine : cosine;
  const Real up = odd ? cosine : sine;
  return {((quarters + 1) & 2) != 0 ? -across : across, (quarters & 2) != 0 ? -up : up};
}
// LITERALINCLUDE END: elementary-circle

}  // namespace openreg
