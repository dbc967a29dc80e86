// add, sub and mul through their stubs. Called on any thread, with or without the GIL; the kernels run on the device's
// stream.
#include <ATen/native/BinaryOps.h>
#include <ATen/ops/add_native.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/sub_native.h>
#include <ATen/ops/sub_ops.h>

#include "aten/kernel_source.h"
#include "aten/structured/structured.h"
#include "native/loops/elementwise.h"
#include "native/registration.h"

namespace openreg::native {
namespace {

// LITERALINCLUDE START: native-add-stubs
using StructuredAlpha = void (*)(at::TensorIteratorBase&, const at::Scalar&);
using Structured = void (*)(at::TensorIteratorBase&);
StructuredAlpha add_before = nullptr;
Structured mul_before = nullptr;

void add_kernel(at::TensorIteratorBase& iter, const at::Scalar& alpha) {
  if (takes(iter)) {
    launch_binary("add", iter, number_of(alpha, iter.common_dtype()));
  } else {
    call_stub_before("add", add_before, iter.common_dtype(), iter, alpha);
  }
}

void mul_kernel(at::TensorIteratorBase& iter) {
  if (takes(iter)) {
    launch_binary("mul", iter);
  } else {
    call_stub_before("mul", mul_before, iter.common_dtype(), iter);
  }
}
// LITERALINCLUDE END: native-add-stubs

// LITERALINCLUDE START: native-add-operators
// The three overloads of a structured binary operator. Its class is PyTorch's: `meta` builds a TensorIterator, and
// `impl` passes it to the stub (structured.h). Calls that are not native go to the operator's previous kernel.
template <class PyTorch, class Functional, class Out, class InPlace>
struct Binary {
  using Meta = PyTorch;
  static constexpr auto kOutputs = 1;

  static bool is_native(const at::Tensor& first, const at::Tensor& self, const at::Tensor& other) {
    return are_native({{&first, &self, &other}, at::result_type(self, other)}, kNumbers);
  }
  template <class... Alpha>
  static at::Tensor functional(const at::Tensor& self, const at::Tensor& other, const Alpha&... alpha) {
    const bool native = is_native(self.is_cpu() ? other : self, self, other);
    return native ? openreg::functional<Binary>(self, other, alpha...) : Next<Functional>::call(self, other, alpha...);
  }
  template <class... Alpha>
  static at::Tensor& in_place(at::Tensor& self, const at::Tensor& other, const Alpha&... alpha) {
    if (!is_native(self, self, other)) return Next<InPlace>::call(self, other, alpha...);
    openreg::in_place<Binary>(self, other, alpha...);
    return self;
  }
  // The output is the last argument, with or without alpha before it.
  static at::Tensor& out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
    if (!is_native(out, self, other)) return Next<Out>::call(self, other, alpha, out);
    openreg::out_variant<Binary>({&out}, self, other, alpha);
    return out;
  }
  static at::Tensor& out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
    if (!is_native(out, self, other)) return Next<Out>::call(self, other, out);
    openreg::out_variant<Binary>({&out}, self, other);
    return out;
  }
};
// LITERALINCLUDE END: native-add-operators

// LITERALINCLUDE START: native-add-registration
using Add =
    Binary<at::native::structured_ufunc_add_CPU, at::_ops::add_Tensor, at::_ops::add_out, at::_ops::add__Tensor>;
using Sub = Binary<at::native::structured_sub_out, at::_ops::sub_Tensor, at::_ops::sub_out, at::_ops::sub__Tensor>;
using Mul = Binary<at::native::structured_mul_out, at::_ops::mul_Tensor, at::_ops::mul_out, at::_ops::mul__Tensor>;

// A stub's macro, REGISTER_PRIVATEUSE1_DISPATCH, discards what was in the slot; replace_stub returns it.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const Replacing quiet;
  add_before = replace_stub(at::native::add_stub, &add_kernel);  // sub negates alpha, and calls it too
  mul_before = replace_stub(at::native::mul_stub, &mul_kernel);

  replace_kernel<at::_ops::add_Tensor>(m, Add::functional<at::Scalar>);
  replace_kernel<at::_ops::add__Tensor>(m, Add::in_place<at::Scalar>);
  replace_kernel<at::_ops::sub_Tensor>(m, Sub::functional<at::Scalar>);
  replace_kernel<at::_ops::sub__Tensor>(m, Sub::in_place<at::Scalar>);
  replace_kernel<at::_ops::mul_Tensor>(m, Mul::functional<>);
  replace_kernel<at::_ops::mul__Tensor>(m, Mul::in_place<>);
  using WithAlpha = at::Tensor& (*)(const at::Tensor&, const at::Tensor&, const at::Scalar&, at::Tensor&);
  using WithoutAlpha = at::Tensor& (*)(const at::Tensor&, const at::Tensor&, at::Tensor&);
  replace_kernel<at::_ops::add_out>(m, static_cast<WithAlpha>(Add::out));
  replace_kernel<at::_ops::sub_out>(m, static_cast<WithAlpha>(Sub::out));
  replace_kernel<at::_ops::mul_out>(m, static_cast<WithoutAlpha>(Mul::out));
  for (const char* const overload : {"Tensor", "out"}) {
    for (const char* const name : {"add", "sub", "mul"}) {
      declare_native("aten::" + std::string(name) + "." + overload, kNumbers);
    }
  }
  for (const char* const name : {"add_", "sub_", "mul_"}) {
    declare_native("aten::" + std::string(name) + ".Tensor", kNumbers);
  }
}
// LITERALINCLUDE END: native-add-registration

}  // namespace
}  // namespace openreg::native
