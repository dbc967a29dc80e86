// Views: operators that create a second tensor over the same memory.
//
// PyTorch's own functions only compute sizes and strides, and touch no data; they are registered unchanged. Without
// them a view would reach the CPU fallback, which could only return a copy, and so rejects it.
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: views-registration
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
}
// LITERALINCLUDE END: views-registration

}  // namespace
}  // namespace openreg
