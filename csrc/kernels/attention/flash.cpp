// Attention by a library: PyTorch's flash attention for the CPU, over the device's bytes. A vendor calls their own
// library here, and keeps the kernels of forward.cpp and backward.cpp for what it does not support.
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <optional>

#include "kernels/attention/attention.h"
#include "kernels/host_view.h"
#include "kernels/launch.h"
#include "kernels/library/library_scope.h"

namespace openreg {

// LITERALINCLUDE START: attention-flash-takes
// If a row has fewer scores than a vector register has floats, the library loses a NaN among them and returns zeros.
constexpr int64_t kWidestVector = 16;

// The library draws no random numbers, has one number of columns for query and value, and no tensor without elements.
// If both a bias and the order of positions hide columns, no simple test finds the rows that it gives a wrong
// logsumexp. It hides later positions before it scales the scores, and a scale of 0 or less shows them again.
bool library_attends(const Attention& attention) {
  return attention.dropout_p == 0 && attention.value.size(3) == attention.query.size(3) &&
         attention.query.numel() > 0 && attention.key.size(2) >= kWidestVector &&
         !(attention.is_causal && (attention.bias.defined() || attention.scale <= 0));
}
// LITERALINCLUDE END: attention-flash-takes

namespace {

// LITERALINCLUDE START: attention-flash-arguments
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// The library reads each row as adjacent elements.
bool has_dense_rows(const at::Tensor& tensor) { return tensor.stride(3) == 1 || tensor.size(3) == 1; }

at::Tensor with_dense_rows(const at::Tensor& tensor) { return has_dense_rows(tensor) ? tensor : tensor.contiguous(); }

// Keys or values, repeated for each query head that shares them: the library has no grouped heads.
at::Tensor for_each_head(const at::Tensor& shared, int64_t heads) {
  return with_dense_rows(shared.size(1) == heads ? shared
                                                 : shared.repeat_interleave(heads / shared.size(1), /*dim=*/1));
}

// The rows, [batch, head, position], of which a mask hides all columns.
at::Tensor hidden_rows(const at::Tensor& bias) { return bias.eq(kMinusInfinity).all(/*dim=*/-1); }

std::optional<at::Tensor> given(const at::Tensor& bias) {
  return bias.defined() ? std::optional(with_dense_rows(bias)) : std::nullopt;
}
// LITERALINCLUDE END: attention-flash-arguments

// LITERALINCLUDE START: attention-flash-forward
// All tensors are views of the host, with the sizes of Attention.
struct FlashForward {
  at::Tensor output;
  at::Tensor logsumexp;
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor bias;
  double scale;
  bool is_causal;
  int64_t* philox_seed;
  int64_t* philox_offset;

  void operator()() const {
    const LibraryScope scope;
    *philox_seed = *philox_offset = 0;  // results too, of no meaning without dropout
    const int64_t heads = query.size(1);
    const at::Tensor rows = has_dense_rows(output) ? output : at::empty_like(output, at::MemoryFormat::Contiguous);
    at::native::flash_attention_kernel(at::kCPU, rows.transpose(1, 2), logsumexp.transpose(1, 2),
                                       with_dense_rows(query), for_each_head(key, heads), for_each_head(value, heads),
                                       /*dropout_p=*/0.0, is_causal, given(bias), scale);
    if (!rows.is_same(output)) {
      output.copy_(rows);
    }
    if (bias.defined()) {
      logsumexp.masked_fill_(hidden_rows(bias), kMinusInfinity);  // the library leaves 0 there
    }
  }
};
// LITERALINCLUDE END: attention-flash-forward

// LITERALINCLUDE START: attention-flash-backward
struct FlashBackward {
  at::Tensor grad_query;  // undefined if it is not needed, as are the other two
  at::Tensor grad_key;
  at::Tensor grad_value;
  at::Tensor grad_output;
  at::Tensor output;
  at::Tensor logsumexp;
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor bias;
  double scale;
  bool is_causal;

  void operator()() const {
    const LibraryScope scope;
    const int64_t heads = query.size(1);
    const at::Tensor queries = with_dense_rows(query);
    const at::Tensor keys = for_each_head(key, heads);
    const at::Tensor values = for_each_head(value, heads);
    // The library adds to its results.
    const at::Tensor to_query = zeros_by_position(queries);
    const at::Tensor to_key = zeros_by_position(keys);
    const at::Tensor to_value = zeros_by_position(values);
    // A row that the mask hides has no weights: exp(-inf - 0) is 0, where exp(-inf - -inf) would be NaN.
    const at::Tensor totals = bias.defined() ? logsumexp.masked_fill(hidden_rows(bias), 0) : logsumexp;
    at::native::flash_attention_backward_kernel(
        at::kCPU, to_query, to_key, to_value, with_dense_rows(grad_output).transpose(1, 2), queries.transpose(1, 2),
        keys.transpose(1, 2), values.transpose(1, 2), with_dense_rows(output).transpose(1, 2), totals.transpose(1, 2),
        /*dropout_p=*/0.0, is_causal, given(bias), scale);
    store(grad_query, to_query);
    store(grad_key, to_key);
    store(grad_value, to_value);
  }

  static at::Tensor zeros_by_position(const at::Tensor& rows) {
    return at::zeros({rows.size(0), rows.size(2), rows.size(1), rows.size(3)}, rows.options());
  }

  // Query heads that share a head of keys add up.
  static void store(const at::Tensor& grad, const at::Tensor& by_position) {
    if (!grad.defined()) {
      return;
    }
    const at::Tensor by_head = by_position.transpose(1, 2);
    grad.copy_(grad.size(1) == by_head.size(1) ? by_head : by_head.unflatten(1, {grad.size(1), -1}).sum(/*dim=*/2));
  }
};
// LITERALINCLUDE END: attention-flash-backward

}  // namespace

void launch_library_attention(const at::Tensor& output, const at::Tensor& logsumexp, const Attention& attention) {
  launch(
      "scaled_dot_product_attention", output.device().index(), logsumexp.nbytes() * attention.key.size(2),
      FlashForward{host_view(output), host_view(logsumexp), host_view(attention.query), host_view(attention.key),
                   host_view(attention.value), host_view_or_none(attention.bias), attention.scale, attention.is_causal,
                   host_alias(attention.philox_seed.mutable_data_ptr<int64_t>(), sizeof(int64_t)),
                   host_alias(attention.philox_offset.mutable_data_ptr<int64_t>(), sizeof(int64_t))});
}

void launch_library_attention_backward(const AttentionGrads& grads, const at::Tensor& grad_output,
                                       const at::Tensor& output, const at::Tensor& logsumexp,
                                       const Attention& attention) {
  launch("scaled_dot_product_attention_backward", output.device().index(), logsumexp.nbytes() * attention.key.size(2),
         FlashBackward{host_view_or_none(grads.query), host_view_or_none(grads.key), host_view_or_none(grads.value),
                       host_view(grad_output), host_view(output), host_view(logsumexp), host_view(attention.query),
                       host_view(attention.key), host_view(attention.value), host_view_or_none(attention.bias),
                       attention.scale, attention.is_causal});
}

}  // namespace openreg
