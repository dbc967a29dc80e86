// abs through abs_stub. Called on any thread, with or without the GIL; the kernel runs on the device's stream.
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/abs_native.h>
#include <ATen/ops/abs_ops.h>

#include "aten/kernel_source.h"
#include "native/loops/elementwise.h"
#include "native/registration.h"

namespace openreg::native {
namespace {

// LITERALINCLUDE START: native-abs-launch
at::native::unary_fn abs_before = nullptr;

// PyTorch's abs_out has checked the shapes, allocated the output, and built the iterator.
void abs_kernel(at::TensorIteratorBase& iter) {
  if (takes(iter)) {
    launch_unary("abs", iter);
  } else {
    call_stub_before("abs", abs_before, iter.common_dtype(), iter);
  }
}

// schema: aten::abs.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
at::Tensor& abs_out(const at::Tensor& self, at::Tensor& out) {
  return are_native({{&self, &out}, self.scalar_type()}, kNumbers) ? at::native::abs_out(self, out)
                                                                   : Next<at::_ops::abs_out>::call(self, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const Replacing quiet;
  abs_before = replace_stub(at::native::abs_stub, &abs_kernel);
  replace_kernel<at::_ops::abs_out>(m, abs_out);
  declare_native("aten::abs.out", kNumbers);
}
// LITERALINCLUDE END: native-abs-launch

}  // namespace
}  // namespace openreg::native
