// Whether one tensor may become another in place: take over its memory, sizes, dtype and device, and stay the same object.
// `tensor.data = other` asks, and module.to() for each parameter. PyTorch's own answer names devices, and not this one.
// Called on any thread, with or without the GIL.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: shallow-copy-plain
// What the key set of a plain tensor may hold: where the memory is, and what happens before a kernel reads it.
constexpr c10::DispatchKeySet kPlainKeys({
    c10::DispatchKey::CPU,
    c10::DispatchKey::PrivateUse1,
    c10::DispatchKey::AutogradCPU,
    c10::DispatchKey::AutogradPrivateUse1,
    c10::DispatchKey::ADInplaceOrView,
    c10::DispatchKey::AutocastCPU,
    c10::DispatchKey::AutocastPrivateUse1,
    c10::DispatchKey::Conjugate,
    c10::DispatchKey::Negative,
    c10::DispatchKey::ZeroTensor,
});

// A tensor of any other kind has a key that says so, and parts that a shallow copy leaves behind: indices, a quantizer,
// what a class in Python holds.
bool is_plain(const at::Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  return keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && kPlainKeys.has_all(keys);
}
// LITERALINCLUDE END: shallow-copy-plain

// LITERALINCLUDE START: shallow-copy-operator
// schema: aten::_has_compatible_shallow_copy_type(Tensor self, Tensor from) -> bool
bool _has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set()) ||
         (is_plain(self) && is_plain(from));
}

// Answered at autograd's key, as PyTorch's own is: below it conjugates would be computed for the question, and classes
// in Python asked. In inference mode the call begins below.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", _has_compatible_shallow_copy_type);
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", _has_compatible_shallow_copy_type);
}
// LITERALINCLUDE END: shallow-copy-operator

}  // namespace
}  // namespace openreg
