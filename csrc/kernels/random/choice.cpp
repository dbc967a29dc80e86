// randperm and multinomial: random choices among n things.
// Called on any thread, with or without the GIL; the loops run on the device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/multinomial_native.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "kernels/random/distributions.h"
#include "kernels/random/random_loop.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: random-permutation
// Gives each number a random key and sorts by the keys. A shuffle is sequential; keys can be drawn by one thread for
// each number, and every device can sort.
template <class T>
struct Permutation {
  PhiloxSequence sequence;
  T* out;
  int64_t stride;
  int64_t count;

  void operator()() const {
    RandomValues<uint64_t, AnyInteger<uint64_t>> keys(sequence, {}, 0, count);
    std::vector<std::pair<uint64_t, int64_t>> keyed;
    for (int64_t i = 0; i < count; ++i) {
      keyed.emplace_back(keys.next(1)[0], i);
    }
    std::sort(keyed.begin(), keyed.end());
    for (int64_t i = 0; i < count; ++i) {
      out[i * stride] = static_cast<T>(keyed[i].second);
    }
  }
};

// schema: aten::randperm.generator_out(SymInt n, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)
at::Tensor& randperm_out(int64_t n, std::optional<at::Generator> generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  // PyTorch's check makes a tensor like this one. An empty CPU tensor is enough, and does not involve the device.
  at::native::check_supported_max_int_with_precision(n, at::empty({0}, out.options().device(c10::kCPU)));
  out.resize_({n});
  AT_DISPATCH_V2(
      out.scalar_type(), "randperm", AT_WRAP([&] {
        if (n == 0) return;  // here, since a dtype is refused whether or not there are elements
        const size_t bytes = ((n - 1) * out.stride(0) + 1) * out.element_size();
        const PhiloxSequence sequence = reserve_sequence(generator, out.device(), n);
        launch("randperm", out.device().index(), bytes,
               Permutation<scalar_t>{sequence, host_alias(out.mutable_data_ptr<scalar_t>(), bytes), out.stride(0), n});
      }),
      AT_EXPAND(AT_ALL_TYPES), at::kHalf, at::kBFloat16);
  return out;
}
// LITERALINCLUDE END: random-permutation

// LITERALINCLUDE START: random-multinomial-kernel
// Draws `samples` columns for each row of weights: a random point on the line of cumulative weights lies in one
// column's part.
template <class T>
struct Multinomial {
  PhiloxSequence sequence;
  int64_t* out;
  const T* weights;
  int64_t rows;
  int64_t columns;
  int64_t samples;

  void operator()() const {
    RandomValues<double, Uniform<double>> points(sequence, {0, 1}, 0, rows * samples);
    std::vector<double> sums(columns);
    for (int64_t row = 0; row < rows; ++row) {
      const T* const of_row = weights + row * columns;
      // Divided by the largest, so that their sum is finite, and not so small that a point rounds to the line's end.
      const auto largest = static_cast<double>(*std::max_element(of_row, of_row + columns));
      double sum = 0;
      for (int64_t column = 0; column < columns; ++column) {
        sums[column] = sum += static_cast<double>(of_row[column]) / largest;
      }
      for (int64_t number = row * samples; number < (row + 1) * samples; ++number) {
        const double point = points.next(1)[0] * sum;
        out[number] = std::upper_bound(sums.begin(), sums.end(), point) - sums.begin();
      }
    }
  }
};

// Synchronizes with the device to check the weights.
void check_weights(const at::Tensor& weights) {
  TORCH_CHECK(weights.ge(0).all().item<bool>(),
              "invalid multinomial distribution (encountering probability entry < 0)");
  TORCH_CHECK(weights.isfinite().all().item<bool>(),
              "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
  TORCH_CHECK(weights.gt(0).any(-1).all().item<bool>(), "invalid multinomial distribution (sum of probabilities <= 0)");
}

// PyTorch's multinomial calls this for more than one sample with replacement. Otherwise it draws exponential numbers,
// divides the weights by them and takes the largest quotients.
void multinomial_kernel(at::Tensor& result, const at::Tensor& self, int64_t samples,
                        std::optional<at::Generator> generator) {
  check_weights(self);
  const at::Tensor weights = self.contiguous();
  const at::Tensor out = result.contiguous();
  const PhiloxSequence sequence = reserve_sequence(generator, self.device(), out.numel());
  AT_DISPATCH_V2(self.scalar_type(), "multinomial", AT_WRAP([&] {
                   launch("multinomial", self.device().index(), weights.nbytes() + out.nbytes(),
                          Multinomial<scalar_t>{sequence, host_alias(out.mutable_data_ptr<int64_t>(), out.nbytes()),
                                                host_alias(weights.const_data_ptr<scalar_t>(), weights.nbytes()),
                                                self.dim() == 1 ? 1 : self.size(0), self.size(-1), samples});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
  if (!out.is_same(result)) {
    result.copy_(out);
  }
}
// LITERALINCLUDE END: random-multinomial-kernel

// LITERALINCLUDE START: random-choice-registration
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("randperm.generator_out", randperm_out);
  m.impl("multinomial", at::native::multinomial);
  m.impl("multinomial.out", at::native::multinomial_out);
}
// LITERALINCLUDE END: random-choice-registration

}  // namespace
}  // namespace openreg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(multinomial_with_replacement_stub, &openreg::multinomial_kernel)
}  // namespace at::native
