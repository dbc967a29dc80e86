// The backend's metadata of a tensor. PyTorch owns it, copies it with detach() and .data, and never looks into it.
// Called on any thread, with or without the GIL.
#include "runtime/tensor_meta.h"

#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: meta-class
struct TensorMeta final : c10::BackendMeta {
  explicit TensorMeta(bool forbid) : forbids_fallback(forbid) {}

  // Called for the second tensor of detach() and .data. What the base class does instead is to share one object, so
  // that a later change of one tensor would change the other.
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return c10::make_intrusive<TensorMeta>(*this);
  }

  bool forbids_fallback;
};
// LITERALINCLUDE END: meta-class

// LITERALINCLUDE START: meta-find
// Null for most tensors. The cast also gives null for an object that somebody else put there.
TensorMeta* find_meta(const at::TensorBase& tensor) {
  return dynamic_cast<TensorMeta*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
}

bool is_marked(const at::TensorBase& tensor) {
  const TensorMeta* meta = find_meta(tensor);
  return meta != nullptr && meta->forbids_fallback;
}
// LITERALINCLUDE END: meta-find

}  // namespace

// LITERALINCLUDE START: meta-access
bool forbids_fallback(const at::Tensor& tensor) {
  // Views are new tensors, whose slot PyTorch leaves empty; but they know what they are views of.
  return is_marked(tensor) || (tensor.is_view() && is_marked(tensor._base()));
}

void set_forbids_fallback(const at::Tensor& tensor, bool forbid) {
  TORCH_CHECK(tensor.is_privateuseone(), "openreg: only a tensor on an openreg device can forbid the fallback, and ",
              "this one is on ", tensor.device());
  if (TensorMeta* meta = find_meta(tensor)) {
    meta->forbids_fallback = forbid;
  } else {
    tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<TensorMeta>(forbid));
  }
}
// LITERALINCLUDE END: meta-access

}  // namespace openreg
