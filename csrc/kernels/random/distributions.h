// Transforms random bits into random numbers: one functor for each distribution. Each takes the bits of one element and
// returns its value, so the value depends on nothing else; those of the normal distributions take the bits of two.
// kName is the operator, for error messages. For kernel files only.
#pragma once

#include <ATen/OpMathType.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "kernels/random/elementary.h"
#include "kernels/random/philox.h"

namespace openreg {

// LITERALINCLUDE START: distributions-unit-interval
// The random bits for a value that is computed in Real.
template <class Real>
using BitsFor = std::conditional_t<std::is_same_v<Real, double>, uint64_t, uint32_t>;

// The first `digits` bits. They become numbers by way of a signed integer, since that is a single instruction.
template <class Bits>
std::make_signed_t<Bits> upper_bits(Bits bits, int digits) {
  return static_cast<std::make_signed_t<Bits>>(bits >> (std::numeric_limits<Bits>::digits - digits));
}

// In [0, 1): a multiple of 2^-digits, each equally likely, and exact in T.
template <class T>
at::opmath_type<T> unit_interval(BitsFor<at::opmath_type<T>> bits) {
  constexpr int digits = std::numeric_limits<T>::digits;
  return static_cast<at::opmath_type<T>>(upper_bits(bits, digits)) / (uint64_t{1} << digits);
}

// In (0, 1): an odd multiple of 2^-digits. For functions that have no value at 0 or at 1.
template <class Real>
Real open_interval(BitsFor<Real> bits) {
  constexpr int digits = std::numeric_limits<Real>::digits;
  return static_cast<Real>(2 * upper_bits(bits, digits - 1) + 1) / (uint64_t{1} << digits);
}
// LITERALINCLUDE END: distributions-unit-interval

// LITERALINCLUDE START: distributions-uniform
template <class T>
struct Uniform {
  static constexpr const char* kName = "uniform_";
  using Real = at::opmath_type<T>;
  using Bits = BitsFor<Real>;
  Real from;
  Real to;

  T operator()(Bits bits) const {
    const T value = static_cast<T>(from + unit_interval<T>(bits) * (to - from));
    // Rounding may have reached the upper bound, which is not in the interval. The lower bound replaces it, since
    // rounding reaches that from one side only.
    return value < to ? value : static_cast<T>(from);
  }
};
// LITERALINCLUDE END: distributions-uniform

// LITERALINCLUDE START: distributions-normal
// The Box-Muller transform: a point in the plane with two normal coordinates has an exponential squared radius and a
// uniform angle. Two elements get the two coordinates of a point.
template <class T>
struct Normal {
  static constexpr const char* kName = "normal_";
  using Real = at::opmath_type<T>;
  using Bits = BitsFor<Real>;
  Real mean;
  Real std;

  std::array<Real, 2> operator()(Bits first, Bits second) const {
    const Real radius = std * std::sqrt(-2 * series_log(open_interval<Real>(first)));
    const PointOnCircle<Real> point = point_on_circle<Real>(second);
    return {mean + radius * point.cosine, mean + radius * point.sine};
  }
};

template <class T>
struct LogNormal {
  static constexpr const char* kName = "log_normal_";
  using Real = at::opmath_type<T>;
  using Bits = BitsFor<Real>;
  Real mean;
  Real std;

  std::array<Real, 2> operator()(Bits first, Bits second) const {
    const std::array<Real, 2> normal = Normal<T>{mean, std}(first, second);
    return {std::exp(normal[0]), std::exp(normal[1])};
  }
};
// LITERALINCLUDE END: distributions-normal

// LITERALINCLUDE START: distributions-by-inversion
// Inverse transform sampling: the cumulative distribution function, solved for the value.
template <class T>
struct Exponential {
  static constexpr const char* kName = "exponential_";
  using Real = at::opmath_type<T>;
  using Bits = BitsFor<Real>;
  Real lambda;

  T operator()(Bits bits) const { return static_cast<T>(-series_log(open_interval<Real>(bits)) / lambda); }
};

template <class T>
struct Cauchy {
  static constexpr const char* kName = "cauchy_";
  using Real = at::opmath_type<T>;
  using Bits = BitsFor<Real>;
  Real median;
  Real sigma;

  T operator()(Bits bits) const {
    const Real turn = open_interval<Real>(bits) - Real(0.5);
    return static_cast<T>(median + sigma * std::tan(std::numbers::pi_v<Real> * turn));
  }
};

// The number of trials up to the first success, at most the largest number of the dtype.
template <class T>
struct Geometric {
  static constexpr const char* kName = "geometric_";
  using Real = std::conditional_t<std::is_integral_v<T>, double, at::opmath_type<T>>;
  using Bits = BitsFor<Real>;
  Real p;

  T operator()(Bits bits) const {
    // At least one, also for a p that rounds to 1.
    const Real trials = std::max(Real(1), std::ceil(std::log(open_interval<Real>(bits)) / std::log1p(-p)));
    constexpr T largest = std::numeric_limits<T>::max();
    return trials < static_cast<Real>(largest) ? static_cast<T>(trials) : largest;
  }
};
// LITERALINCLUDE END: distributions-by-inversion

// LITERALINCLUDE START: distributions-discrete
// True with probability p, up to 2^-31: never for 0, always for 1.
template <class T>
struct Bernoulli {
  static constexpr const char* kName = "bernoulli_";
  using Bits = uint32_t;
  int32_t last;  // of the numbers below 2^31 that mean true; -1 if none does

  explicit Bernoulli(double p) : last(static_cast<int32_t>(std::ceil(p * (int64_t{1} << 31)) - 1)) {}
  T operator()(Bits bits) const { return static_cast<T>(upper_bits(bits, 31) <= last); }
};

// A block is two 64-bit numbers.
inline uint64_t first_bits(const PhiloxBlock& block) { return block[0] | uint64_t{block[1]} << 32; }
inline uint64_t second_bits(const PhiloxBlock& block) { return block[2] | uint64_t{block[3]} << 32; }

// An integer in [0, range): the bits, read as a fraction, times range. The remainder of a division would favor small
// numbers if range is large.
inline uint64_t below(uint64_t bits, uint64_t range) {
  using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{bits} * range >> 64);
}

// The same for a fraction of 128 bits.
inline uint64_t below(const PhiloxBlock& block, uint64_t range) {
  using Wide = unsigned __int128;
  return static_cast<uint64_t>((Wide{first_bits(block)} * range + below(second_bits(block), range)) >> 64);
}

// An integer in [base, base + range).
template <class T, class AnyBits>
struct Integer {
  static constexpr const char* kName = "random_";
  using Bits = AnyBits;
  uint64_t range;
  int64_t base;

  T operator()(const Bits& bits) const {
    return static_cast<T>(static_cast<int64_t>(below(bits, range) + static_cast<uint64_t>(base)));
  }
};

// Any signed 64-bit integer.
template <class T>
struct AnyInteger {
  static constexpr const char* kName = "random_";
  using Bits = uint64_t;
  T operator()(Bits bits) const { return static_cast<T>(static_cast<int64_t>(bits)); }
};
// LITERALINCLUDE END: distributions-discrete

}  // namespace openreg
