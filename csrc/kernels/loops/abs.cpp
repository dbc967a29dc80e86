// abs, registered through its stub: PyTorch's own abs does everything but the loop, and calls the one that this file
// puts into abs_stub. Called on any thread, with or without the GIL; the loop runs on the device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/abs_native.h>
#include <torch/library.h>

#include "kernels/library/host_loop.h"
#include "kernels/loops/elementwise.h"
#include "kernels/loops/magnitude.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: abs-loop
template <class T>
void launch_abs(at::TensorIteratorBase& iter) {
  launch_elementwise<T, T>("abs", iter, Magnitude());
}

void abs_kernel(at::TensorIteratorBase& iter) {
  // The derivative of a norm looks for elements whose abs() equals the norm, so both come from one library. The stub's
  // output has the dtype of its input; abs_out takes the real part.
  if (at::isComplexType(iter.dtype())) {
    LibraryLoop<"abs", at::native::abs_stub, /*kWaits=*/false>::kernel(iter);
    return;
  }
  AT_DISPATCH_V2(iter.dtype(), "abs_openreg", AT_WRAP([&] { launch_abs<scalar_t>(iter); }), AT_EXPAND(AT_ALL_TYPES),
                 at::kHalf, at::kBFloat16, at::kFloat8_e5m2, at::kFloat8_e5m2fnuz, at::kFloat8_e4m3fn,
                 at::kFloat8_e4m3fnuz);
}
// LITERALINCLUDE END: abs-loop

// LITERALINCLUDE START: abs-operator-registration
// schema: aten::abs.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
//
// The stub is only a function pointer inside PyTorch's abs_out. Unless that function is registered for the device,
// nothing ever reads the pointer, and abs falls back to the CPU.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("abs.out", at::native::abs_out); }
// LITERALINCLUDE END: abs-operator-registration

}  // namespace
}  // namespace openreg

// LITERALINCLUDE START: abs-stub-registration
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &openreg::abs_kernel)
}  // namespace at::native
// LITERALINCLUDE END: abs-stub-registration
