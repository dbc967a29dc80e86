// The two operators, forward and backward, that PyTorch leaves to backends for scaled_dot_product_attention: they check
// their arguments, allocate the results, and queue the kernels of forward.cpp and backward.cpp. Called on any thread,
// with or without the GIL.
#include "kernels/attention/attention.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace openreg {
namespace {

// Adds the batch dimension to a tensor of three dimensions. An undefined tensor stays undefined.
at::Tensor in_four_dimensions(at::Tensor tensor) {
  while (tensor.defined() && tensor.dim() < 4) {
    tensor = tensor.unsqueeze(0);
  }
  return tensor;
}

Attention attention_arguments(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const at::Tensor& bias, double dropout_p, bool is_causal, std::optional<double> scale) {
  // The schema has no enable_gqa: scaled_dot_product_attention has checked whether key may have fewer heads.
  const char* const refusal = attention_refusal(query, key, value, bias, /*enable_gqa=*/true);
  TORCH_CHECK(refusal == nullptr, "openreg: of the arguments of fused attention this does not hold: ", refusal);
  TORCH_CHECK(!bias.defined() || bias.scalar_type() == query.scalar_type(),
              "openreg: fused attention adds its bias, so it takes ", query.scalar_type(), ", got ",
              bias.scalar_type());
  TORCH_CHECK(dropout_p >= 0 && dropout_p <= 1, "openreg: the probability of dropout lies between 0 and 1, got ",
              dropout_p);
  Attention attention;
  attention.query = in_four_dimensions(query);
  attention.key = in_four_dimensions(key);
  attention.value = in_four_dimensions(value);
  if (bias.defined()) {
    attention.bias =
        bias.expand({attention.query.size(0), attention.query.size(1), attention.query.size(2), attention.key.size(2)});
  }
  attention.scale = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  attention.dropout_p = dropout_p;
  attention.is_causal = is_causal;
  return attention;
}

// Keeps the order of query's dimensions in memory: callers often continue with output.transpose(1, 2).
at::Tensor empty_output(const at::Tensor& query, int64_t columns) {
  if (columns == query.size(-1)) {
    return at::empty_like(query);
  }
  at::DimVector sizes(query.sizes());
  sizes.back() = columns;
  at::DimVector order(query.dim());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t one, int64_t other) { return query.stride(one) > query.stride(other); });
  at::DimVector strides(query.dim());
  int64_t stride = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    strides[*dim] = stride;
    stride *= sizes[*dim];
  }
  return at::empty_strided(sizes, strides, query.options());
}

// LITERALINCLUDE START: attention-forward
// SymInt, although the sizes are known here: PyTorch has registered a kernel with these types, and all must agree.
using ForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                                 at::Tensor, at::Tensor>;

// schema: aten::_scaled_dot_product_fused_attention_overrideable(Tensor query, Tensor key, Tensor value, Tensor?
//         attn_bias=None, float dropout_p=0.0, bool is_causal=False, bool return_debug_mask=False, *, float?
//         scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt
//         max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)
ForwardResult fused_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const std::optional<at::Tensor>& bias, double dropout_p, bool is_causal,
                              bool return_debug_mask, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(!return_debug_mask, "openreg: fused attention does not return its mask of dropout");
  Attention attention =
      attention_arguments(query, key, value, bias.value_or(at::Tensor()), dropout_p, is_causal, scale);
  attention.philox_seed = at::empty({}, query.options().dtype(at::kLong));
  attention.philox_offset = at::empty_like(attention.philox_seed);
  at::Tensor output = empty_output(query, value.size(-1));
  at::Tensor logsumexp = at::empty({attention.query.size(0), attention.query.size(1), attention.query.size(2)},
                                   query.options().dtype(at::toOpMathType(query.scalar_type())));
  compute_attention(in_four_dimensions(output), logsumexp, attention);
  // cum_seq_q and cum_seq_k are the boundaries of sequences packed into one tensor, which scaled_dot_product_attention
  // never passes.
  return {output,         logsumexp,    at::Tensor(),          at::Tensor(),
          query.size(-2), key.size(-2), attention.philox_seed, attention.philox_offset,
          at::Tensor()};
}
// LITERALINCLUDE END: attention-forward

// LITERALINCLUDE START: attention-backward
// schema: aten::_scaled_dot_product_fused_attention_overrideable_backward(Tensor grad_out, Tensor query, Tensor key,
//         Tensor value, Tensor attn_bias, bool[4] grad_input_mask, Tensor out, Tensor logsumexp, Tensor cum_seq_q,
//         Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, Tensor philox_seed, Tensor
//         philox_offset, *, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor
//         grad_attn_bias)
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> fused_attention_backward(
    const at::Tensor& grad_output, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, std::array<bool, 4> wanted, const at::Tensor& output, const at::Tensor& logsumexp,
    const at::Tensor&, const at::Tensor&, int64_t, int64_t, double dropout_p, bool is_causal,
    const at::Tensor& philox_seed, const at::Tensor& philox_offset, std::optional<double> scale) {
  if (!grad_output.defined()) {
    return {};  // autograd also calls this when the loss does not depend on the output
  }
  Attention attention = attention_arguments(query, key, value, bias, dropout_p, is_causal, scale);
  attention.philox_seed = philox_seed;
  attention.philox_offset = philox_offset;
  at::DimVector sizes(query.sizes());
  sizes.back() = value.size(-1);
  for (const at::Tensor& tensor : {output, grad_output}) {
    TORCH_CHECK(
        tensor.sizes() == sizes && tensor.scalar_type() == query.scalar_type() && tensor.device() == query.device(),
        "openreg: the output of fused attention and its gradient have sizes ", sizes, " and are of ",
        query.scalar_type(), " on ", query.device(), ", got ", tensor.sizes(), ", ", tensor.scalar_type(), " on ",
        tensor.device());
  }
  TORCH_CHECK(logsumexp.sizes() == attention.query.sizes().slice(0, 3) &&
                  logsumexp.scalar_type() == at::toOpMathType(query.scalar_type()) &&
                  logsumexp.device() == query.device() && philox_seed.numel() == 1 && philox_offset.numel() == 1 &&
                  philox_seed.scalar_type() == at::kLong && philox_offset.scalar_type() == at::kLong &&
                  philox_seed.device() == query.device() && philox_offset.device() == query.device(),
              "openreg: the backward of fused attention takes logsumexp, philox_seed and philox_offset as the forward "
              "returned them");
  const auto grad_of = [&](size_t which, const at::Tensor& tensor) {
    return wanted[which] && tensor.defined() ? at::empty_like(tensor) : at::Tensor();
  };
  const std::array grads{grad_of(0, query), grad_of(1, key), grad_of(2, value), grad_of(3, bias)};
  compute_attention_backward({in_four_dimensions(grads[0]), in_four_dimensions(grads[1]), in_four_dimensions(grads[2]),
                              in_four_dimensions(grads[3])},
                             in_four_dimensions(grad_output), in_four_dimensions(output), logsumexp, attention);
  return {grads[0], grads[1], grads[2], grads[3]};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", fused_attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", fused_attention_backward);
}
// LITERALINCLUDE END: attention-backward

}  // namespace
}  // namespace openreg
