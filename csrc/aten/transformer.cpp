// The operators that nn.MultiheadAttention, nn.TransformerEncoderLayer and nn.TransformerEncoder call in inference.
// Their "fast path" is taken on the CPU, on CUDA and, without asking, on every PrivateUse1 device: three operators,
// with kernels for the first two alone. With the fallback, a whole layer would run on the CPU, and an encoder with a
// padding mask would fail.
// Called on any thread, with or without the GIL.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_transformer_encoder_layer_fwd_native.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

namespace openreg {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// The modules pass a mask that is true where a key is hidden, or numbers to be added to the scores. mask_type 1 is
// [batch, keys]; the others expand to [batch, heads, queries, keys] as they are. Attention adds the mask returned: zero
// where a key is visible, minus infinity where it is hidden. PyTorch's kernels take every number that is not zero for
// true, and hide what a bias such as ALiBi's only shifts.
at::Tensor additive_mask(const at::Tensor& mask, std::optional<int64_t> mask_type, const at::Tensor& like) {
  constexpr int64_t kKeyPadding = 1;
  const at::Tensor placed = mask_type == kKeyPadding ? mask.unsqueeze(1).unsqueeze(1) : mask;
  if (placed.is_floating_point()) return placed.to(like.scalar_type());
  return at::zeros(placed.sizes(), like.options())
      .masked_fill_(placed.to(at::kBool), -std::numeric_limits<double>::infinity());
}

// LITERALINCLUDE START: transformer-attention
// schema: aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head,
//         Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None,
//         bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)
std::tuple<at::Tensor, at::Tensor> _native_multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim, int64_t num_head,
    const at::Tensor& qkv_weight, const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
    const at::Tensor& proj_bias, const OptionalTensor& mask, bool need_weights, bool average_attn_weights,
    std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3 && query.size(2) == embed_dim && num_head > 0 && embed_dim % num_head == 0,
              "openreg: multi-head attention expects [batch, length, ", embed_dim, "] for ", num_head,
              " heads that divide the last size, got ", query.sizes());
  TORCH_CHECK(qkv_weight.dim() == 2 && qkv_weight.size(0) == 3 * embed_dim && qkv_bias.dim() == 1 &&
                  qkv_bias.size(0) == 3 * embed_dim,
              "openreg: multi-head attention expects weights of ", 3 * embed_dim, " rows and as many biases, got ",
              qkv_weight.sizes(), " and ", qkv_bias.sizes());
  const auto weights = qkv_weight.chunk(3);
  const auto biases = qkv_bias.chunk(3);
  const auto heads = [&](const at::Tensor& input, size_t which) {
    return at::linear(input, weights[which], biases[which])
        .view({input.size(0), input.size(1), num_head, embed_dim / num_head})
        .transpose(1, 2);
  };
  const at::Tensor queries = heads(query, 0);
  const at::Tensor keys = heads(key, 1);
  const at::Tensor values = heads(value, 2);
  const OptionalTensor hidden =
      mask.has_value() && mask->defined() ? OptionalTensor(additive_mask(*mask, mask_type, query)) : std::nullopt;
  at::Tensor attended;
  at::Tensor shares;  // the attention weights: a matrix that is materialized only on request
  if (need_weights) {
    // Scaled before the product, which half precision could not hold.
    const at::Tensor scaled = queries / std::sqrt(static_cast<double>(embed_dim / num_head));
    shares = at::matmul(scaled, keys.transpose(2, 3));
    shares = at::softmax(hidden.has_value() ? shares + *hidden : shares, -1);
    attended = at::matmul(shares, values);
    shares = average_attn_weights ? shares.mean(1) : shares;
  } else {
    attended = at::scaled_dot_product_attention(queries, keys, values, hidden);
  }
  attended = attended.transpose(1, 2).reshape({query.size(0), query.size(1), embed_dim});
  return {at::linear(attended, proj_weight, proj_bias), shares};
}
// LITERALINCLUDE END: transformer-attention

// LITERALINCLUDE START: transformer-registration
// schema: aten::_nested_tensor_from_mask_left_aligned(Tensor t, Tensor mask) -> bool
//
// nn.TransformerEncoder packs a padded batch into a nested tensor if this returns true. Most operators reject nested
// tensors on this device (layouts.cpp), so it never does: the padding is computed too.
bool _nested_tensor_from_mask_left_aligned(const at::Tensor&, const at::Tensor&) { return false; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_native_multi_head_attention", _native_multi_head_attention);
  m.impl("_nested_tensor_from_mask_left_aligned", _nested_tensor_from_mask_left_aligned);
  m.impl("_transformer_encoder_layer_fwd", at::native::transformer_encoder_layer_forward);
}
// LITERALINCLUDE END: transformer-registration

}  // namespace
}  // namespace openreg
