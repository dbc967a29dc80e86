// Whether a tensor may take over the memory, sizes, dtype and device of another and remain the same object.
// `tensor.data = other` asks this, and so does module.to() for each parameter. PyTorch's own answer knows a fixed list
// of devices.
// Called on any thread, with or without the GIL.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: shallow-copy-plain
// Keys for what happens before a kernel runs. What they represent moves with the key set.
constexpr c10::DispatchKeySet kBeforeKernels({
    c10::DispatchKey::AutogradFunctionality,
    c10::DispatchKey::ADInplaceOrView,
    c10::DispatchKey::AutocastCPU,
    c10::DispatchKey::AutocastPrivateUse1,
    c10::DispatchKey::Conjugate,
    c10::DispatchKey::Negative,
    c10::DispatchKey::ZeroTensor,
});

// Without these keys, a plain tensor has one key, that of its memory. Any other kind of tensor has another key, and
// parts that a shallow copy leaves behind: indices, a quantizer, the state of a Python subclass.
bool is_plain(const at::Tensor& tensor) {
  const c10::DispatchKeySet kind = tensor.key_set() - kBeforeKernels;
  return kind == c10::DispatchKeySet(c10::DispatchKey::CPU) ||
         kind == c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
}
// LITERALINCLUDE END: shallow-copy-plain

// LITERALINCLUDE START: shallow-copy-operator
// schema: aten::_has_compatible_shallow_copy_type(Tensor self, Tensor from) -> bool
bool _has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set()) ||
         (is_plain(self) && is_plain(from));
}

// Registered at the autograd key, as PyTorch's own is: below it, conjugates would be materialized and Python subclasses
// called to answer the question. In inference mode the call starts below autograd.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", _has_compatible_shallow_copy_type);
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", _has_compatible_shallow_copy_type);
}
// LITERALINCLUDE END: shallow-copy-operator

}  // namespace
}  // namespace openreg
