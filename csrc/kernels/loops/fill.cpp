// fill_, through its stub: an elementwise kernel without input. Called on any thread, with or without the GIL; the loop
// runs on the device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/Fill.h>
#include <ATen/ops/fill_native.h>
#include <torch/library.h>

#include <type_traits>

#include "kernels/loops/elementwise.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: fill-kernel
// A number that is too large for a dtype of 8 or 16 bits is an error, except for a single element: it becomes what
// torch.tensor makes of the number, mostly an infinity, as on the CPU.
template <class T>
T element(const at::Scalar& value, bool is_single) {
  if constexpr (std::is_class_v<T> && !c10::is_complex<T>::value) {
    if (is_single) return static_cast<T>(static_cast<float>(value.to<double>()));
  }
  return value.to<T>();
}

template <class T>
void launch_fill(at::TensorIterator& iter, const at::Scalar& value) {
  launch_elementwise<T>("fill", iter, [number = element<T>(value, iter.numel() == 1)] { return number; });
}

void fill_kernel(at::TensorIterator& iter, const at::Scalar& value) {
  AT_DISPATCH_V2(iter.dtype(0), "fill_openreg", AT_WRAP([&] { launch_fill<scalar_t>(iter, value); }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kBool, at::kHalf,
                 at::kBFloat16, AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES));
}

// schema: aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)
// schema: aten::fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Fill = at::Tensor&(at::Tensor&, const at::Scalar&);
  using FillWithTensor = at::Tensor&(at::Tensor&, const at::Tensor&);
  m.impl("fill_.Scalar", static_cast<Fill*>(at::native::fill_));
  m.impl("fill_.Tensor", static_cast<FillWithTensor*>(at::native::fill_));
}
// LITERALINCLUDE END: fill-kernel

}  // namespace
}  // namespace openreg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(fill_stub, &openreg::fill_kernel)
}  // namespace at::native
