// Transforms random bits into random numbers: one functor for each distribution. Each takes the block of one element
// and returns its value, so the value depends on nothing else. kName is the operator, for error messages. For kernel
// files only.
#pragma once

#include <ATen/OpMathType.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "kernels/random/philox.h"

namespace openreg {

// LITERALINCLUDE START: distributions-unit-interval
// A block is two 64-bit numbers.
inline uint64_t first_bits(const PhiloxBlock& block) { return block[0] | uint64_t{block[1]} << 32; }
inline uint64_t second_bits(const PhiloxBlock& block) { return block[2] | uint64_t{block[3]} << 32; }

// In [0, 1): a multiple of 2^-digits, each equally likely, and exact in T.
template <class T>
at::opmath_type<T> unit_interval(uint64_t bits) {
  constexpr int digits = std::numeric_limits<T>::digits;
  return static_cast<at::opmath_type<T>>(bits >> (64 - digits)) / (uint64_t{1} << digits);
}

// In (0, 1): an odd multiple of 2^-digits. For functions that have no value at 0 or at 1.
template <class Real>
Real open_interval(uint64_t bits) {
  constexpr int digits = std::numeric_limits<Real>::digits;
  return static_cast<Real>(2 * (bits >> (65 - digits)) + 1) / (uint64_t{1} << digits);
}
// LITERALINCLUDE END: distributions-unit-interval

// LITERALINCLUDE START: distributions-uniform
template <class T>
struct Uniform {
  static constexpr const char* kName = "uniform_";
  at::opmath_type<T> from;
  at::opmath_type<T> to;

  T operator()(const PhiloxBlock& block) const {
    const T value = static_cast<T>(from + unit_interval<T>(first_bits(block)) * (to - from));
    // Rounding may have reached the upper bound, which is not in the interval. The lower bound replaces it, since
    // rounding reaches that from one side only.
    return value < to ? value : static_cast<T>(from);
  }
};
// LITERALINCLUDE END: distributions-uniform

// LITERALINCLUDE START: distributions-normal
// The Box-Muller transform: a point in the plane with two normal coordinates has an exponential squared radius and a
// uniform angle. Only one coordinate is used.
template <class Real>
Real standard_normal(const PhiloxBlock& block) {
  const Real radius = std::sqrt(-2 * std::log(open_interval<Real>(first_bits(block))));
  const Real angle = 2 * std::numbers::pi_v<Real> * unit_interval<Real>(second_bits(block));
  return radius * std::cos(angle);
}

template <class T>
struct Normal {
  static constexpr const char* kName = "normal_";
  using Real = at::opmath_type<T>;
  Real mean;
  Real std;

  T operator()(const PhiloxBlock& block) const { return static_cast<T>(mean + std * standard_normal<Real>(block)); }
};

template <class T>
struct LogNormal {
  static constexpr const char* kName = "log_normal_";
  using Real = at::opmath_type<T>;
  Real mean;
  Real std;

  T operator()(const PhiloxBlock& block) const {
    return static_cast<T>(std::exp(mean + std * standard_normal<Real>(block)));
  }
};
// LITERALINCLUDE END: distributions-normal

// LITERALINCLUDE START: distributions-by-inversion
// Inverse transform sampling: the cumulative distribution function, solved for the value.
template <class T>
struct Exponential {
  static constexpr const char* kName = "exponential_";
  using Real = at::opmath_type<T>;
  Real lambda;

  T operator()(const PhiloxBlock& block) const {
    return static_cast<T>(-std::log(open_interval<Real>(first_bits(block))) / lambda);
  }
};

template <class T>
struct Cauchy {
  static constexpr const char* kName = "cauchy_";
  using Real = at::opmath_type<T>;
  Real median;
  Real sigma;

  T operator()(const PhiloxBlock& block) const {
    const Real turn = open_interval<Real>(first_bits(block)) - Real(0.5);
    return static_cast<T>(median + sigma * std::tan(std::numbers::pi_v<Real> * turn));
  }
};

// The number of trials up to the first success, at most the largest number of the dtype.
template <class T>
struct Geometric {
  static constexpr const char* kName = "geometric_";
  using Real = std::conditional_t<std::is_integral_v<T>, double, at::opmath_type<T>>;
  Real p;

  T operator()(const PhiloxBlock& block) const {
    const Real trials = std::ceil(std::log(open_interval<Real>(first_bits(block))) / std::log1p(-p));
    constexpr T largest = std::numeric_limits<T>::max();
    return trials < static_cast<Real>(largest) ? static_cast<T>(trials) : largest;
  }
};
// LITERALINCLUDE END: distributions-by-inversion

// LITERALINCLUDE START: distributions-discrete
// True with probability p: never for 0, always for 1.
inline bool happens(const PhiloxBlock& block, double p) { return unit_interval<double>(first_bits(block)) < p; }

template <class T>
struct Bernoulli {
  static constexpr const char* kName = "bernoulli_";
  double p;

  T operator()(const PhiloxBlock& block) const { return static_cast<T>(happens(block, p)); }
};

// An integer in [0, range): the block, read as a 128-bit fraction, times range. The remainder of a division would favor
// small numbers if range is large.
inline uint64_t below(const PhiloxBlock& block, uint64_t range) {
  using Wide = unsigned __int128;
  const Wide carried = Wide{second_bits(block)} * range >> 64;
  return static_cast<uint64_t>((Wide{first_bits(block)} * range + carried) >> 64);
}

// An integer in [base, base + range).
template <class T>
struct Integer {
  static constexpr const char* kName = "random_";
  uint64_t range;
  int64_t base;

  T operator()(const PhiloxBlock& block) const {
    return static_cast<T>(static_cast<int64_t>(below(block, range) + static_cast<uint64_t>(base)));
  }
};

// Any signed 64-bit integer.
template <class T>
struct AnyInteger {
  static constexpr const char* kName = "random_";
  T operator()(const PhiloxBlock& block) const { return static_cast<T>(static_cast<int64_t>(first_bits(block))); }
};
// LITERALINCLUDE END: distributions-discrete

}  // namespace openreg
