// random_, bernoulli_ and geometric_: like the operators of real.cpp, for discrete distributions. Called on any thread,
// with or without the GIL; the loops run on the device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/bernoulli_native.h>
#include <ATen/ops/geometric_native.h>
#include <ATen/ops/random_native.h>
#include <torch/library.h>

#include "kernels/random/distributions.h"
#include "kernels/random/random_loop.h"
#include "runtime/capture.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: random-integer-kernels
// Half a block is enough for a range of at most 2^32: no number is more likely than another by more than 2^-32.
template <class T>
void launch_integers(const at::TensorBase& self, const std::optional<at::Generator>& generator, uint64_t range,
                     int64_t base) {
  if (range <= uint64_t{1} << 32) {
    launch_random<T>(self, generator, Integer<T, uint64_t>{range, base});
  } else {
    launch_random<T>(self, generator, Integer<T, PhiloxBlock>{range, base});
  }
}

void random_from_to_kernel(at::TensorIteratorBase& iter, uint64_t range, int64_t base,
                           std::optional<at::Generator> generator) {
  AT_DISPATCH_V2(iter.dtype(), "random_",
                 AT_WRAP([&] { launch_integers<scalar_t>(iter.tensor_base(0), generator, range, base); }),
                 AT_EXPAND(AT_INTEGRAL_TYPES_V2), AT_EXPAND(AT_FLOATING_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}

// Without bounds: all integers from 0 that the dtype represents without gaps. Above 2^digits a float skips some.
template <class T>
constexpr uint64_t countable() {
  return std::is_integral_v<T> ? static_cast<uint64_t>(std::numeric_limits<T>::max()) + 1
                               : (uint64_t{1} << std::numeric_limits<T>::digits) + 1;
}

void random_kernel(at::TensorIteratorBase& iter, std::optional<at::Generator> generator) {
  AT_DISPATCH_V2(iter.dtype(), "random_",
                 AT_WRAP([&] { launch_integers<scalar_t>(iter.tensor_base(0), generator, countable<scalar_t>(), 0); }),
                 AT_EXPAND(AT_ALL_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}

// random_(-2**63, None)
void random_full_range_kernel(at::TensorIteratorBase& iter, std::optional<at::Generator> generator) {
  AT_DISPATCH_V2(iter.dtype(), "random_",
                 AT_WRAP([&] { launch_random<scalar_t>(iter.tensor_base(0), generator, AnyInteger<scalar_t>{}); }),
                 at::kLong, AT_EXPAND(AT_FLOATING_TYPES), at::kBFloat16);
}
// LITERALINCLUDE END: random-integer-kernels

void geometric_kernel(at::TensorIteratorBase& iter, double p, std::optional<at::Generator> generator) {
  AT_DISPATCH_V2(iter.dtype(), "geometric_", AT_WRAP([&] {
                   using Distribution = Geometric<scalar_t>;
                   launch_random<scalar_t>(iter.tensor_base(0), generator,
                                           Distribution{static_cast<Distribution::Real>(p)});
                 }),
                 AT_EXPAND(AT_ALL_TYPES), at::kHalf, at::kBFloat16);
}

// LITERALINCLUDE START: random-bernoulli-kernels
void bernoulli_scalar_kernel(const at::TensorBase& self, double p, std::optional<at::Generator> generator) {
  AT_DISPATCH_V2(self.scalar_type(), "bernoulli_",
                 AT_WRAP([&] { launch_random<scalar_t>(self, generator, Bernoulli<scalar_t>(p)); }),
                 AT_EXPAND(AT_ALL_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}

// Each element has its own probability.
template <class T, class Probability>
struct HappensAtElement {
  void operator()(const std::array<char*, 2>& at, double drawn) const {
    const double p = static_cast<double>(*reinterpret_cast<const Probability*>(at[1]));
    *reinterpret_cast<T*>(at[0]) = static_cast<T>(drawn < p);
  }
};

template <class T>
void launch_bernoulli(const at::TensorBase& self, const at::Tensor& p, const std::optional<at::Generator>& generator) {
  AT_DISPATCH_V2(p.scalar_type(), "bernoulli_", AT_WRAP([&] {
                   launch_random_loop<double, 2>("bernoulli", {self, p}, generator, Uniform<double>{0, 1},
                                                 HappensAtElement<T, scalar_t>());
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}

// Synchronizes with the device to check the probabilities: a kernel that finds an invalid one can only fail. While a
// graph is captured there is nothing to read, and a probability outside [0, 1] counts as the nearer end, and NaN as 0.
void bernoulli_tensor_kernel(const at::TensorBase& self, const at::TensorBase& p_base,
                             std::optional<at::Generator> generator) {
  const at::Tensor given = at::Tensor(p_base).to(self.device());
  TORCH_CHECK(at::isFloatingType(given.scalar_type()), "bernoulli_ expects p to be of a floating point dtype, got ",
              given.scalar_type());
  at::assert_no_partial_overlap(self, given);  // the kernel would read what it has just written
  TORCH_CHECK(is_capturing(current_stream_handle(self.device().index())) ||
                  given.ge(0).logical_and(given.le(1)).all().item<bool>(),
              "bernoulli_ expects every element of p to be in [0, 1]");
  const at::Tensor p = given.expand(self.sizes());
  AT_DISPATCH_V2(self.scalar_type(), "bernoulli_", AT_WRAP([&] { launch_bernoulli<scalar_t>(self, p, generator); }),
                 AT_EXPAND(AT_ALL_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}
// LITERALINCLUDE END: random-bernoulli-kernels

// LITERALINCLUDE START: random-discrete-operators
using Unbounded = at::Tensor& (*)(at::Tensor&, std::optional<at::Generator>);
using To = at::Tensor& (*)(at::Tensor&, int64_t, std::optional<at::Generator>);
using FromTo = at::Tensor& (*)(at::Tensor&, int64_t, std::optional<int64_t>, std::optional<at::Generator>);
using OneProbability = at::Tensor& (*)(at::Tensor&, double, std::optional<at::Generator>);
using ManyProbabilities = at::Tensor& (*)(at::Tensor&, const at::Tensor&, std::optional<at::Generator>);

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("random_", static_cast<Unbounded>(at::native::random_));
  m.impl("random_.to", static_cast<To>(at::native::random_));
  m.impl("random_.from", static_cast<FromTo>(at::native::random_));
  m.impl("bernoulli_.float", static_cast<OneProbability>(at::native::bernoulli_));
  m.impl("bernoulli_.Tensor", static_cast<ManyProbabilities>(at::native::bernoulli_));
  m.impl("bernoulli.out", at::native::bernoulli_out);
  m.impl("geometric_", at::native::geometric_);
}
// LITERALINCLUDE END: random-discrete-operators

}  // namespace
}  // namespace openreg

// LITERALINCLUDE START: random-discrete-stubs
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(random_stub, &openreg::random_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(random_from_to_stub, &openreg::random_from_to_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(random_full_64_bits_range_stub, &openreg::random_full_range_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_scalar_stub, &openreg::bernoulli_scalar_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_tensor_stub, &openreg::bernoulli_tensor_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(geometric_stub, &openreg::geometric_kernel)
}  // namespace at::native
// LITERALINCLUDE END: random-discrete-stubs
