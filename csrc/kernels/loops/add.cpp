// add and sub, through the stub that they share: a binary kernel that handles what PyTorch leaves to it, operands of
// different dtypes and numbers of the host. Called on any thread, with or without the GIL; the loop runs on the
// device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/DispatchStub.h>

#include <cstdint>
#include <type_traits>

#include "kernels/library/host_loop.h"
#include "kernels/loops/elementwise.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: add-function
// The type to compute in: for integers an unsigned type, whose overflow is defined.
template <class T>
using AddType = std::conditional_t<std::is_integral_v<T>, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>,
                                   at::opmath_type<T>>;

template <class T>
struct Add {
  T operator()(T a, T b) const { return static_cast<T>(static_cast<AddType<T>>(a) + static_cast<AddType<T>>(b)); }
};

template <class T>
struct AddScaled {
  AddType<T> alpha;

  // The product is rounded before it is added. Whether PyTorch's CPU kernel does so depends on the processor.
  T operator()(T a, T b) const { return Add<T>()(a, static_cast<T>(alpha * static_cast<AddType<T>>(b))); }
};
// LITERALINCLUDE END: add-function

// LITERALINCLUDE START: add-kernel
template <class T>
void launch_add(at::TensorIteratorBase& iter, const at::Scalar& alpha) {
  // For an integer dtype alpha is an integer too, and this throws if it does not fit.
  const auto scale = static_cast<AddType<T>>(alpha.to<std::conditional_t<std::is_integral_v<T>, T, AddType<T>>>());
  // PyTorch multiplies complex numbers even by 1, which turns an infinity into a NaN. Devices should agree.
  if (!c10::is_complex<T>::value && scale == AddType<T>(1)) {
    launch_elementwise<T, T, T>("add", iter, Add<T>());
  } else {
    launch_elementwise<T, T, T>("add", iter, AddScaled<T>{scale});
  }
}

// Whether an operand has a dtype that this file cannot convert: half precision, or a number of float8.
bool needs_library(const at::TensorIteratorBase& iter) {
  bool has = false;
  for (int operand = 0; operand < iter.ntensors(); ++operand) {
    const at::ScalarType dtype = iter.dtype(operand);
    has = has || dtype == at::kHalf || dtype == at::kBFloat16 || !is_convertible(dtype);
  }
  return has;
}

// Computes in the iterator's common dtype, which need not be that of any operand.
void add_kernel(at::TensorIteratorBase& iter, const at::Scalar& alpha) {
  // PyTorch has checked alpha for the dtype of out=, which can hold a fraction that integers lose.
  at::native::alpha_check(iter.common_dtype(), alpha);
  if (needs_library(iter)) {  // which converts with instructions that this file is not compiled for
    LibraryLoop<"add", at::native::add_stub, /*kWaits=*/false>::kernel(iter, alpha);
    return;
  }
  AT_DISPATCH_V2(iter.common_dtype(), "add_stub", AT_WRAP([&] { launch_add<scalar_t>(iter, alpha); }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kBool);
}
// LITERALINCLUDE END: add-kernel

}  // namespace
}  // namespace openreg

// LITERALINCLUDE START: add-stub-registration
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(add_stub, &openreg::add_kernel)
}  // namespace at::native
// LITERALINCLUDE END: add-stub-registration
