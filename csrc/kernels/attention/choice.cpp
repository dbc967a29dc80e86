// Chooses the implementation of scaled_dot_product_attention: this backend's kernels, or PyTorch's composition of
// ordinary operators, called math. Called on any thread, with or without the GIL.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "kernels/attention/attention.h"
#include "kernels/linalg/blas.h"

namespace openreg {

// LITERALINCLUDE START: attention-refusal
namespace {

bool is_attention_dtype(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16;
}

// Tensors inside torch.func or forward-mode AD: vmap has no batching rule for the operator, and to the other
// transformations it is opaque.
bool is_transformed(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kWrappers{c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper};
  return tensor.key_set().has_any(kWrappers) || tensor._fw_grad(/*level=*/0).defined();
}

bool heads_fit(const c10::SymInt& query_heads, const c10::SymInt& heads, bool enable_gqa) {
  return query_heads == heads || (enable_gqa && heads > 0 && query_heads % heads == 0);
}

}  // namespace

const char* attention_refusal(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const std::optional<at::Tensor>& bias, bool enable_gqa) {
  if (sgemm_ == nullptr || dgemm_ == nullptr) return "PyTorch exports its BLAS";
  for (const at::Tensor& tensor : {query, key, value}) {
    if (tensor.is_nested() || tensor.layout() != c10::kStrided) {
      return "query, key and value are strided tensors, and not nested";
    }
    if (tensor.dim() != query.dim() || (tensor.dim() != 3 && tensor.dim() != 4)) {
      return "query, key and value have three dimensions each, or four";
    }
    if (tensor.scalar_type() != query.scalar_type() || !is_attention_dtype(tensor.scalar_type())) {
      return "query, key and value are all of float32, float64, float16 or bfloat16";
    }
    if (tensor.device() != query.device()) {
      return "query, key and value are on one device";
    }
    if (is_transformed(tensor)) {
      return "it has no forward-mode derivative, and no rule for torch.func";
    }
    if (tensor.dim() == 4 && tensor.sym_size(0) != query.sym_size(0)) {
      return "query, key and value have one batch size";
    }
    if (!heads_fit(query.sym_size(-3), tensor.sym_size(-3), enable_gqa)) {
      return "key and value have as many heads as query or, with enable_gqa, a number that divides it";
    }
  }
  if (key.sym_size(-1) != query.sym_size(-1) || key.sym_size(-2) != value.sym_size(-2)) {
    return "key has the columns of query and the positions of value";
  }
  if (query.dim() == 3 && value.sym_size(-1) != query.sym_size(-1)) {
    // PyTorch's meta function, which torch.compile calls, raises IndexError for these.
    return "with three dimensions, value has the columns of query";
  }
  if (bias.has_value() && bias->defined()) {
    // The batch size applies only to a mask of four dimensions.
    const std::array sizes{query.sym_size(0), query.sym_size(-3), query.sym_size(-2), key.sym_size(-2)};
    if (bias->dim() > query.dim() || !at::is_expandable_to(bias->sym_sizes(), sizes)) {
      return "the mask expands to batch, heads, positions of query, positions of key";
    }
    if (bias->scalar_type() != at::kBool && bias->scalar_type() != query.scalar_type()) {
      return "the mask is of bool or of the dtype of query";
    }
    if (bias->device() != query.device() || bias->layout() != c10::kStrided || is_transformed(*bias)) {
      return "the mask is a strided tensor on the device of query, outside of torch.func and forward-mode derivatives";
    }
  }
  return nullptr;
}
// LITERALINCLUDE END: attention-refusal

namespace {

// LITERALINCLUDE START: attention-choice
// PyTorch's default order puts math before overrideable: it is meant for devices that have other kernels. An order that
// a caller has set is respected.
bool math_goes_first(const at::Context& context) {
  using at::SDPBackend;
  constexpr std::array<SDPBackend, at::num_sdp_backends> kPyTorchs{
      SDPBackend::flash_attention, SDPBackend::efficient_attention, SDPBackend::math, SDPBackend::cudnn_attention,
      SDPBackend::overrideable};
  const auto order = at::globalContext().sDPPriorityOrder();
  return context.userEnabledMathSDP() && order != kPyTorchs &&
         std::ranges::find(order, SDPBackend::math) < std::ranges::find(order, SDPBackend::overrideable);
}

// schema: aten::_fused_sdp_choice(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0,
//         bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> int
int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double, bool is_causal, std::optional<double>,
                         bool enable_gqa) {
  const at::Context& context = at::globalContext();
  const char* refusal = "sdpa_kernel does not allow SDPBackend.OVERRIDEABLE";
  if (context.userEnabledOverrideableSDP()) {
    refusal = attention_refusal(query, key, value, mask, enable_gqa);
    if (refusal == nullptr && is_causal && mask.has_value()) {
      refusal = "is_causal stands for a mask, so there is no other";  // math then raises PyTorch's error
    }
    if (refusal == nullptr && !math_goes_first(context)) {
      return static_cast<int64_t>(at::SDPBackend::overrideable);
    }
  }
  TORCH_CHECK(context.userEnabledMathSDP(),
              "openreg: no implementation of scaled_dot_product_attention is left. sdpa_kernel does not allow "
              "SDPBackend.MATH; of the kernel of this device: ",
              refusal);
  return static_cast<int64_t>(at::SDPBackend::math);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_fused_sdp_choice", fused_sdp_choice); }
// LITERALINCLUDE END: attention-choice

}  // namespace
}  // namespace openreg

// LITERALINCLUDE START: attention-stub
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &openreg::fused_sdp_choice)
}  // namespace at::native
// LITERALINCLUDE END: attention-stub
