// Which operators run in lower precision inside torch.autocast, which in float32, and which in the widest dtype of
// their arguments. PyTorch provides the lists and the casting function; a backend registers them for its key.
//
// Called on any thread, with or without the GIL, before autograd and before any kernel: nothing here depends on the
// device.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace openreg {
namespace {

// LITERALINCLUDE START: autocast-refused
// schema: aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor
//
// The derivative of log(x) is 1 / x, which near 0 overflows half precision. Casting the input to float32 does not
// restore what a sigmoid in half precision has already rounded to 0 or 1.
at::Tensor binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  C10_THROW_ERROR(NotImplementedError,
                  "binary_cross_entropy and BCELoss are not safe inside torch.autocast: use "
                  "binary_cross_entropy_with_logits or BCEWithLogitsLoss without the sigmoid before it, or compute the "
                  "loss of float32 arguments in a region with enabled=False");
}
// LITERALINCLUDE END: autocast-refused

// LITERALINCLUDE START: autocast-fallthrough
// Operators in no list fall through: the dispatcher skips the key. PyTorch does this for the keys of its own devices.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
// LITERALINCLUDE END: autocast-fallthrough

// LITERALINCLUDE START: autocast-lists
// PyTorch's lists name the operator, and the overload if there is more than one; these macros add the policy. One list
// also has signatures, whose types are written as inside PyTorch's own namespace.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

#define OPENREG_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define OPENREG_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define OPENREG_FP32_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define OPENREG_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(OPENREG_LOWER_PRECISION)
  AT_FORALL_FP32(OPENREG_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(OPENREG_FP32_RESULT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(OPENREG_WIDEST)
  m.impl("binary_cross_entropy", binary_cross_entropy);
}
// LITERALINCLUDE END: autocast-lists

}  // namespace
}  // namespace openreg
