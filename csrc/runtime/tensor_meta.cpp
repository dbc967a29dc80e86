// The backend's metadata of a tensor. PyTorch owns it, copies it with detach() and .data, and never looks into it.
// Called on any thread, with or without the GIL.
#include "runtime/tensor_meta.h"

#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: meta-class
// PyTorch copies the reference, and not the object, into the tensors that detach() and .data make. So an object is
// never changed: a new one takes its place. A class that does change must override BackendMeta::clone.
struct TensorMeta final : c10::BackendMeta {
  explicit TensorMeta(bool forbid) : forbids_fallback(forbid) {}

  const bool forbids_fallback;
};

// Most tensors have no object. The cast also gives null for one that is not of this class.
bool is_marked(const at::TensorBase& tensor) {
  const auto* meta = dynamic_cast<const TensorMeta*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  return meta != nullptr && meta->forbids_fallback;
}
// LITERALINCLUDE END: meta-class

}  // namespace

// LITERALINCLUDE START: meta-access
bool forbids_fallback(const at::Tensor& tensor) {
  // Views are new tensors, whose slot PyTorch leaves empty; but they know what they are views of.
  return is_marked(tensor) || (tensor.is_view() && is_marked(tensor._base()));
}

void set_forbids_fallback(const at::Tensor& tensor, bool forbid) {
  TORCH_CHECK(tensor.is_privateuseone(), "openreg: only a tensor on an openreg device can forbid the fallback, and ",
              "this one is on ", tensor.device());
  tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<TensorMeta>(forbid));
}
// LITERALINCLUDE END: meta-access

}  // namespace openreg
