// Scaled dot product attention of this backend: which calls its kernels take, and their loops.
//
// For each batch, head and query position ("row"), the scores of all key positions ("columns") are
// scale * query . key + bias, their softmax weighs the values, and the weighted values are summed.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace openreg {

// Why the kernels do not take these arguments; null when they do. Reads no data, and makes do with sizes that are not
// known yet, as torch.compile has them.
const char* attention_refusal(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const std::optional<at::Tensor>& bias, bool enable_gqa);

// What both directions have in common. Every tensor has four dimensions: batch, head, position, column. Key and value
// may have fewer heads than query: each serves as many heads of query as follow one another.
struct Attention {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor bias;  // undefined, or a number for each score, of the dtype of query
  double scale = 1;
  double dropout_p = 0;
  bool is_causal = false;  // a row sees columns up to its own number only
  // Where dropout's random numbers begin: int64 scalars, on the device so that no one waits for their values.
  at::Tensor philox_seed;
  at::Tensor philox_offset;
};

// Writes both scalars too. The logarithm of a row's sum of exponentials is of the math type: double for double, else
// float.
void compute_attention(const at::Tensor& output, const at::Tensor& logsumexp, const Attention& attention);

struct AttentionGrads {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor bias;  // of the bias before it was expanded: its sizes are 1 where that repeats
};

// Any gradient that is undefined is not wanted.
void compute_attention_backward(const AttentionGrads& grads, const at::Tensor& grad_output, const at::Tensor& logsumexp,
                                const Attention& attention);

}  // namespace openreg
