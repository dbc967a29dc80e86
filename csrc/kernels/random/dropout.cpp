// The loops of dropout as kernels: one pass over the memory for drawing, masking and scaling.
#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <c10/util/complex.h>

#include "aten/dropout.h"
#include "kernels/random/distributions.h"
#include "kernels/random/random_loop.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: dropout-loops
// Multiplies instead of selecting: a NaN that is dropped stays a NaN, as on other devices.
template <class T>
T masked(T value, bool kept, double scale) {
  using Math = at::opmath_type<T>;
  const auto factor = static_cast<typename c10::scalar_value_type<Math>::type>(kept ? scale : 0);
  return static_cast<T>(static_cast<Math>(value) * factor);
}

template <class T>
struct DropoutForward {
  PhiloxSequence sequence;
  double keep_probability;
  double scale;

  void operator()(const std::array<char*, 3>& at, uint64_t number) const {
    const bool kept = happens(sequence[number], keep_probability);
    *reinterpret_cast<T*>(at[0]) = masked(*reinterpret_cast<const T*>(at[2]), kept, scale);
    *reinterpret_cast<bool*>(at[1]) = kept;
  }
};

template <class T>
struct DropoutBackward {
  double scale;

  void operator()(const std::array<char*, 3>& at, uint64_t) const {
    const bool kept = *reinterpret_cast<const bool*>(at[2]);
    *reinterpret_cast<T*>(at[0]) = masked(*reinterpret_cast<const T*>(at[1]), kept, scale);
  }
};
// LITERALINCLUDE END: dropout-loops

}  // namespace

// LITERALINCLUDE START: dropout-launches
void draw_dropout(const at::Tensor& output, const at::Tensor& mask, const at::Tensor& input, double keep_probability,
                  double scale) {
  const PhiloxSequence sequence = reserve_blocks(std::nullopt, input.device(), input.numel());
  AT_DISPATCH_V2(input.scalar_type(), "native_dropout", AT_WRAP([&] {
                   launch_indexed<3>("native_dropout", {output, mask, input},
                                     DropoutForward<scalar_t>{sequence, keep_probability, scale});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kHalf, at::kBFloat16);
}

void apply_dropout(const at::Tensor& result, const at::Tensor& grad, const at::Tensor& mask, double scale) {
  AT_DISPATCH_V2(grad.scalar_type(), "native_dropout_backward", AT_WRAP([&] {
                   launch_indexed<3>("native_dropout_backward", {result, grad, mask}, DropoutBackward<scalar_t>{scale});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kHalf, at::kBFloat16);
}
// LITERALINCLUDE END: dropout-launches

}  // namespace openreg
