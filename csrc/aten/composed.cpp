// Operators that PyTorch composes of others in the same way for the CPU and for CUDA, but has registered for those two
// alone. These functions do not depend on the device and are registered unchanged. `equal`, which returns a value on
// the host, is composed here, and so is `_lazy_clone`, which is right for one device alone.
#include <ATen/ops/_assert_async_native.h>
#include <ATen/ops/_reshape_from_tensor_native.h>
#include <ATen/ops/addbmm_native.h>
#include <ATen/ops/all.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/glu_backward_jvp_native.h>
#include <ATen/ops/glu_jvp_native.h>
#include <ATen/ops/hardtanh_native.h>
#include <ATen/ops/isnan_native.h>
#include <ATen/ops/relu_native.h>
#include <ATen/ops/remainder_native.h>
#include <ATen/ops/rsub_native.h>
#include <torch/library.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: composed-equal
// schema: aten::equal(Tensor self, Tensor other) -> bool
bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(),
              " and ", other.device());
  return self.sizes() == other.sizes() && at::eq(self, other).all().item<bool>();
}
// LITERALINCLUDE END: composed-equal

// LITERALINCLUDE START: composed-reshape
// schema: aten::_reshape_from_tensor(Tensor self, Tensor shape) -> Tensor
//
// PyTorch's version reads the sizes as host memory. It is composite for autograd too, and so is this one.
at::Tensor _reshape_from_tensor(const at::Tensor& self, const at::Tensor& shape) {
  return at::native::_reshape_from_tensor(self, shape.cpu());
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("_reshape_from_tensor", _reshape_from_tensor); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_reshape_from_tensor", _reshape_from_tensor); }
// LITERALINCLUDE END: composed-reshape

// LITERALINCLUDE START: composed-lazy-clone
// schema: aten::_lazy_clone(Tensor self) -> Tensor
//
// PyTorch's version copies when one of the two tensors is written: on the device and the stream that are current then,
// which may be others than the memory's. So this one copies at once.
at::Tensor lazy_clone(const at::Tensor& self) { return self.clone(); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_lazy_clone", lazy_clone); }
// LITERALINCLUDE END: composed-lazy-clone

// LITERALINCLUDE START: composed-registration
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("relu", at::native::relu);
  m.impl("relu_", at::native::relu_);
  m.impl("hardtanh", at::native::hardtanh);
  m.impl("hardtanh_", at::native::hardtanh_);
  m.impl("hardtanh.out", at::native::hardtanh_out);
  m.impl("isnan", at::native::isnan);
  // These C++ functions are overloaded: the cast selects the one that matches the schema.
  m.impl("rsub.Tensor",
         static_cast<at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Scalar&)>(at::native::rsub));
  m.impl("remainder.Scalar_Tensor",
         static_cast<at::Tensor (*)(const at::Scalar&, const at::Tensor&)>(at::native::remainder));
  m.impl("addbmm", at::native::addbmm);
  m.impl("addbmm_", at::native::addbmm_);
  m.impl("addbmm.out", at::native::addbmm_out);
  m.impl("glu_jvp", at::native::glu_jvp);
  m.impl("equal", equal);
  // These two read the asserted value on the host: a sampler waits, but a failed assertion leaves the device usable.
  m.impl("_assert_async", at::native::_assert_async_cpu);
  m.impl("_assert_async.msg", at::native::_assert_async_msg_cpu);
  m.impl("glu_backward_jvp", at::native::glu_backward_jvp);
}
// LITERALINCLUDE END: composed-registration

}  // namespace
}  // namespace openreg
