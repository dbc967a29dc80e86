// The loops of dropout as kernels: one pass over the memory for drawing, masking and scaling.
#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/complex.h>

#include "aten/dropout.h"
#include "kernels/loops/elementwise.h"
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
  double scale;

  void operator()(const std::array<char*, 3>& at, bool kept) const {
    *reinterpret_cast<T*>(at[0]) = masked(*reinterpret_cast<const T*>(at[2]), kept, scale);
    *reinterpret_cast<bool*>(at[1]) = kept;
  }
};

struct DropoutBackward {
  double scale;

  template <class T>
  T operator()(T grad, bool kept) const {
    return masked(grad, kept, scale);
  }
};
// LITERALINCLUDE END: dropout-loops

}  // namespace

// LITERALINCLUDE START: dropout-launches
void draw_dropout(const at::Tensor& output, const at::Tensor& mask, const at::Tensor& input, double keep_probability,
                  double scale) {
  AT_DISPATCH_V2(input.scalar_type(), "native_dropout", AT_WRAP([&] {
                   launch_random_loop<bool, 3>("native_dropout", {output, mask, input}, std::nullopt,
                                               Bernoulli<bool>(keep_probability), DropoutForward<scalar_t>{scale});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kHalf, at::kBFloat16);
}

// Draws nothing, so the order of the elements does not matter.
void apply_dropout(const at::Tensor& result, const at::Tensor& grad, const at::Tensor& mask, double scale) {
  const at::TensorIterator iter = at::TensorIteratorConfig()
                                      .add_output(result)
                                      .add_const_input(grad)
                                      .add_const_input(mask)
                                      .check_all_same_dtype(false)
                                      .build();
  AT_DISPATCH_V2(grad.scalar_type(), "native_dropout_backward", AT_WRAP([&] {
                   launch_elementwise<scalar_t, scalar_t, bool>("native_dropout_backward", iter,
                                                                DropoutBackward{scale});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kHalf, at::kBFloat16);
}
// LITERALINCLUDE END: dropout-launches

}  // namespace openreg
