// A loop in a stub, at first without and then with the operator that calls it. Compiled, loaded and used by
// operators_stub_alone.py.
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/Resize.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/neg_native.h>
#include <torch/library.h>

namespace {

// LITERALINCLUDE START: stub-alone
// Nobody can miss a call of this loop.
void conspicuous_loop(at::TensorIteratorBase& iter) {
  const at::TensorBase& out = iter.output();
  TORCH_CHECK(false, "the loop in neg_stub was called for an output of ", out.sizes(), " with strides ", out.strides());
}

}  // namespace

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(neg_stub, &conspicuous_loop)
}  // namespace at::native
// LITERALINCLUDE END: stub-alone

namespace {

// LITERALINCLUDE START: stub-reached
// PyTorch's neg.out is "structured": a class whose meta() checks the arguments and sets up the iterator, and whose
// impl() calls neg_stub. What the class leaves open is where the output comes from.
struct NegOut final : at::native::structured_neg_out {
  explicit NegOut(at::Tensor& out) : out_(out) {}

  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    if (at::native::resize_output(out_, sizes) && !strides.empty()) {
      out_.as_strided_(sizes, strides);
    }
    at::TensorIteratorBase::set_output_raw_strided(index, sizes, strides, options);
  }

  const at::Tensor& maybe_get_output(int64_t) override { return out_; }

 private:
  at::Tensor& out_;
};

// schema: aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
at::Tensor& neg_out(const at::Tensor& self, at::Tensor& out) {
  NegOut op(out);
  op.meta(self);
  op.impl(self, out);
  return out;
}

TORCH_LIBRARY(stub_alone, m) {
  m.def("register_neg_out() -> ()", [] {
    static auto library = MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1);
    library.impl("neg.out", neg_out);
  });
}
// LITERALINCLUDE END: stub-reached

}  // namespace
