// mean, amax and amin, through their stubs. Called on any thread, with or without the GIL; the loops run on the
// device's stream.
#include <ATen/AccumulateType.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/NumericUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/ReduceOps.h>

#include <limits>
#include <type_traits>

#include "kernels/loops/reduction.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: reductions-mean
// Accumulates in double. Down a column there is one accumulator, and a float that counts ones stops at 2^24. Where
// double is slow, add up parts, and then the sums of the parts.
template <class T>
struct MeanOf {
  using In = T;
  using Out = T;
  using Accumulator = std::conditional_t<c10::is_complex<T>::value, at::acc_type<T, /*is_cuda=*/false>, double>;

  Accumulator count;
  Accumulator identity{0};
  Accumulator combine(Accumulator a, Accumulator b) const { return a + b; }
  Out result(Accumulator sum) const { return static_cast<Out>(sum / count); }
};

template <class T>
void launch_mean(at::TensorIterator& iter) {
  const int64_t count = iter.numel() / iter.num_output_elements();
  launch_reduction("mean", iter, MeanOf<T>{static_cast<typename MeanOf<T>::Accumulator>(static_cast<double>(count))});
}

void mean_kernel(at::TensorIterator& iter) {
  TORCH_CHECK(!at::isIntegralType(iter.dtype(0), /*includeBool=*/true), "mean: expected an output of a floating point ",
              "or complex dtype, but got ", iter.dtype(0));
  AT_DISPATCH_V2(iter.dtype(0), "mean_openreg", AT_WRAP([&] { launch_mean<scalar_t>(iter); }),
                 AT_EXPAND(AT_FLOATING_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kHalf, at::kBFloat16);
}
// LITERALINCLUDE END: reductions-mean

// LITERALINCLUDE START: reductions-extremes
// A NaN propagates from either operand. Both comparisons are always made, since a branch would prevent vectorization.
template <class T>
struct Largest {
  using In = T;
  using Out = T;
  using Accumulator = at::opmath_type<T>;  // float for half, and else T
  using Limits = std::numeric_limits<Accumulator>;

  Accumulator identity = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  Accumulator combine(Accumulator a, Accumulator b) const {
    const bool is_first = at::_isnan(a) | (a > b);
    return is_first ? a : b;
  }
  Out result(Accumulator largest) const { return static_cast<Out>(largest); }
};

template <class T>
struct Smallest : Largest<T> {
  using typename Largest<T>::Accumulator;
  using typename Largest<T>::Limits;

  Smallest() { this->identity = Limits::has_infinity ? Limits::infinity() : Limits::max(); }
  Accumulator combine(Accumulator a, Accumulator b) const {
    const bool is_first = at::_isnan(a) | (a < b);
    return is_first ? a : b;
  }
};

void amax_kernel(at::TensorIterator& iter) {
  AT_DISPATCH_V2(iter.dtype(0), "amax_openreg", AT_WRAP([&] { launch_reduction("amax", iter, Largest<scalar_t>()); }),
                 AT_EXPAND(AT_ALL_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}

void amin_kernel(at::TensorIterator& iter) {
  AT_DISPATCH_V2(iter.dtype(0), "amin_openreg", AT_WRAP([&] { launch_reduction("amin", iter, Smallest<scalar_t>()); }),
                 AT_EXPAND(AT_ALL_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}
// LITERALINCLUDE END: reductions-extremes

}  // namespace
}  // namespace openreg

// LITERALINCLUDE START: reductions-registration
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(mean_stub, &openreg::mean_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(max_values_stub, &openreg::amax_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(min_values_stub, &openreg::amin_kernel)
}  // namespace at::native
// LITERALINCLUDE END: reductions-registration
