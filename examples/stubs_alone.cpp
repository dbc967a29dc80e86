// A loop in a stub, at first without and then with the operator that calls it. Compiled, loaded and used by
// stubs_alone.py.
#include <ATen/TensorIterator.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/angle_native.h>
#include <torch/library.h>

namespace {

// LITERALINCLUDE START: stub-alone
// A call of this loop cannot go unnoticed.
void conspicuous_loop(at::TensorIteratorBase& iter) {
  const at::TensorBase& out = iter.output();
  TORCH_CHECK(false, "the loop in angle_stub was called for an output of ", out.sizes(), " with strides ",
              out.strides());
}

}  // namespace

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(angle_stub, &conspicuous_loop)
}  // namespace at::native
// LITERALINCLUDE END: stub-alone

namespace {

// LITERALINCLUDE START: stub-reached
// schema: aten::angle.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
//
// PyTorch's function resizes the output, sets up the iterator and calls angle_stub.
TORCH_LIBRARY(stub_alone, m) {
  m.def("register_angle_out() -> ()", [] {
    static auto library = MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1);
    library.impl("angle.out", at::native::angle_out);
  });
  m.def("empty_the_slot() -> ()", [] { at::native::angle_stub.set_privateuse1_dispatch_ptr(nullptr); });
}
// LITERALINCLUDE END: stub-reached

}  // namespace
