// The custom operators of this backend: their names and schemas, in a namespace of our own. Loading the library makes
// them callable as torch.ops.openreg.<name>; aten/custom and kernels/custom implement them.
#include <ATen/core/enum_tag.h>
#include <torch/library.h>

#include <vector>

namespace openreg {
namespace {

// LITERALINCLUDE START: custom-operator-schemas
// One TORCH_LIBRARY per namespace and process; another library that adds to it uses TORCH_LIBRARY_FRAGMENT. The tag
// tells torch.compile that the operators keep to the rules that torch.library.opcheck checks.
TORCH_LIBRARY(openreg, m) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag};
  m.def("custom_abs(Tensor input) -> Tensor", tags);
  m.def("soft_cap(Tensor input, float cap) -> Tensor", tags);
  m.def("soft_cap_backward(Tensor grad, Tensor output, float cap) -> Tensor", tags);
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor", tags);
}
// LITERALINCLUDE END: custom-operator-schemas

}  // namespace
}  // namespace openreg
