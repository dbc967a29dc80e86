// uniform_, normal_, log_normal_, exponential_ and cauchy_: PyTorch's own functions check the arguments and handle
// complex numbers, and call the kernels of this file through stubs. Called on any thread, with or without the GIL; the
// loops run on the device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/cauchy_native.h>
#include <ATen/ops/exponential_native.h>
#include <ATen/ops/log_normal_native.h>
#include <ATen/ops/normal_native.h>
#include <ATen/ops/uniform_native.h>
#include <torch/library.h>

#include "kernels/random/distributions.h"
#include "kernels/random/random_loop.h"

namespace openreg {
namespace {

using OptionalGenerator = std::optional<at::Generator>;

// LITERALINCLUDE START: random-real-draw
// Fills the tensor with values of Distribution<dtype>{parameters...}, for the four real floating-point dtypes.
template <template <class> class Distribution, class... Parameters>
void draw_real(const at::TensorBase& self, const OptionalGenerator& generator, Parameters... parameters) {
  AT_DISPATCH_V2(self.scalar_type(), Distribution<float>::kName, AT_WRAP([&] {
                   using Real = at::opmath_type<scalar_t>;
                   launch_random<scalar_t>(self, generator, Distribution<scalar_t>{static_cast<Real>(parameters)...});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}
// LITERALINCLUDE END: random-real-draw

// LITERALINCLUDE START: random-real-kernels
void uniform_kernel(at::TensorIteratorBase& iter, double from, double to, OptionalGenerator generator) {
  draw_real<Uniform>(iter.tensor_base(0), generator, from, to);
}

void normal_kernel(const at::TensorBase& self, double mean, double std, OptionalGenerator generator) {
  at::assert_no_internal_overlap(self);  // The other kernels get a TensorIterator, which has checked this.
  draw_real<Normal>(self, generator, mean, std);
}

void log_normal_kernel(at::TensorIteratorBase& iter, double mean, double std, OptionalGenerator generator) {
  draw_real<LogNormal>(iter.tensor_base(0), generator, mean, std);
}

void exponential_kernel(at::TensorIteratorBase& iter, double lambda, OptionalGenerator generator) {
  TORCH_CHECK(at::isFloatingType(iter.dtype()),
              "Exponential distribution is a continuous probability distribution. dtype must be a floating point but "
              "you specified ",
              iter.dtype());
  draw_real<Exponential>(iter.tensor_base(0), generator, lambda);
}

void cauchy_kernel(at::TensorIteratorBase& iter, double median, double sigma, OptionalGenerator generator) {
  draw_real<Cauchy>(iter.tensor_base(0), generator, median, sigma);
}
// LITERALINCLUDE END: random-real-kernels

// LITERALINCLUDE START: random-real-operators
using MeanAndStd = at::Tensor (*)(const at::Tensor&, const at::Tensor&, OptionalGenerator);
using MeanAndStdOut = at::Tensor& (*)(const at::Tensor&, const at::Tensor&, OptionalGenerator, at::Tensor&);
using Mean = at::Tensor (*)(const at::Tensor&, double, OptionalGenerator);
using MeanOut = at::Tensor& (*)(const at::Tensor&, double, OptionalGenerator, at::Tensor&);
using Std = at::Tensor (*)(double, const at::Tensor&, OptionalGenerator);
using StdOut = at::Tensor& (*)(double, const at::Tensor&, OptionalGenerator, at::Tensor&);

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", at::native::uniform_);
  m.impl("log_normal_", at::native::log_normal_);
  m.impl("exponential_", at::native::exponential_);
  m.impl("cauchy_", at::native::cauchy_);
  m.impl("normal_", at::native::normal_);
  // One name in C++: the types of mean and std select the operator.
  m.impl("normal.Tensor_Tensor", static_cast<MeanAndStd>(at::native::normal));
  m.impl("normal.Tensor_Tensor_out", static_cast<MeanAndStdOut>(at::native::normal_out));
  m.impl("normal.Tensor_float", static_cast<Mean>(at::native::normal));
  m.impl("normal.Tensor_float_out", static_cast<MeanOut>(at::native::normal_out));
  m.impl("normal.float_Tensor", static_cast<Std>(at::native::normal));
  m.impl("normal.float_Tensor_out", static_cast<StdOut>(at::native::normal_out));
}
// LITERALINCLUDE END: random-real-operators

}  // namespace
}  // namespace openreg

// LITERALINCLUDE START: random-real-stubs
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(uniform_stub, &openreg::uniform_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(normal_stub, &openreg::normal_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(log_normal_stub, &openreg::log_normal_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(exponential_stub, &openreg::exponential_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(cauchy_stub, &openreg::cauchy_kernel)
}  // namespace at::native
// LITERALINCLUDE END: random-real-stubs
