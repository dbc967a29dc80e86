// where, through its stub: an elementwise kernel whose inputs have two dtypes. Called on any thread, with or without
// the GIL; the loop runs on the device's stream.
#include <ATen/Dispatch_v2.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/ops/where_native.h>
#include <torch/library.h>

#include "kernels/loops/elementwise.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: where-kernel
struct Choose {
  template <class T>
  T operator()(bool condition, T yes, T no) const {
    return condition ? yes : no;
  }
};

// PyTorch's where has given both choices the dtype of the output. There is no common dtype, since the condition has its
// own.
void choose_kernel(at::TensorIterator& iter) {
  AT_DISPATCH_V2(iter.dtype(0), "where_openreg",
                 AT_WRAP([&] { launch_elementwise<scalar_t, bool, scalar_t, scalar_t>("where", iter, Choose()); }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kComplexHalf, at::kBool, at::kHalf,
                 at::kBFloat16, AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES));
}
// LITERALINCLUDE END: where-kernel

// LITERALINCLUDE START: where-operator-registration
// schema: aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
// schema: aten::where.self_out(Tensor condition, Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Where = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&);  // one of five overloads
  m.impl("where.self", static_cast<Where*>(at::native::where));
  m.impl("where.self_out", at::native::where_self_out);
}
// LITERALINCLUDE END: where-operator-registration

}  // namespace
}  // namespace openreg

// LITERALINCLUDE START: where-stub-registration
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(where_kernel, &openreg::choose_kernel)
}  // namespace at::native
// LITERALINCLUDE END: where-stub-registration
