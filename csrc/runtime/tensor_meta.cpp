// The backend's metadata of a tensor. PyTorch owns it, passes it on in detach() and .data, and never reads it. Called
// on any thread, with or without the GIL.
#include "runtime/tensor_meta.h"

#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: meta-class
// detach() and .data copy the reference, and not the object, to the new tensor. So an object is immutable, and is
// replaced instead. A mutable class must override BackendMeta::clone.
struct TensorMeta final : c10::BackendMeta {
  explicit TensorMeta(bool forbid) : forbids_fallback(forbid) {}

  const bool forbids_fallback;
};

// Most tensors have no metadata. The cast also returns null for metadata of another class.
bool is_marked(const at::TensorBase& tensor) {
  const auto* meta = dynamic_cast<const TensorMeta*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  return meta != nullptr && meta->forbids_fallback;
}
// LITERALINCLUDE END: meta-class

}  // namespace

// LITERALINCLUDE START: meta-access
bool forbids_fallback(const at::Tensor& tensor) {
  // PyTorch leaves the slot of a view empty, but a view knows its base.
  return is_marked(tensor) || (tensor.is_view() && is_marked(tensor._base()));
}

void set_forbids_fallback(const at::Tensor& tensor, bool forbid) {
  TORCH_CHECK(tensor.is_privateuseone(), "openreg: only a tensor on a device of openreg can forbid the fallback, and ",
              "this one is on ", tensor.device());
  tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<TensorMeta>(forbid));
}
// LITERALINCLUDE END: meta-access

}  // namespace openreg
