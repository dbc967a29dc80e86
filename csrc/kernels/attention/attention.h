// Scaled dot product attention of this backend: which calls its kernels accept, and the functions that launch them.
//
// For each batch, head and query position ("row"), the scores of all key positions ("columns") are
// scale * query . key + bias. The output row is the sum of the values, weighted by the softmax of these scores.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace openreg {

// Returns why the kernels do not accept these arguments, or null if they do. Reads no data, and accepts symbolic sizes,
// as torch.compile passes them.
const char* attention_refusal(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const std::optional<at::Tensor>& bias, bool enable_gqa);

// The arguments that forward and backward share. Every tensor has four dimensions: batch, head, position, column. Key
// and value may have fewer heads than query: each then serves a group of consecutive query heads.
struct Attention {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor bias;  // undefined, or one element per score, of query's dtype
  double scale = 1;
  double dropout_p = 0;
  bool is_causal = false;  // a row sees only columns up to its own index
  // Where dropout's random numbers begin: int64 scalars, on the device so that the host does not wait for them.
  at::Tensor philox_seed;
  at::Tensor philox_offset;
};

// Also writes philox_seed and philox_offset. logsumexp, the logarithm of each row's sum of exponentials, has the math
// type: double for double, otherwise float.
void compute_attention(const at::Tensor& output, const at::Tensor& logsumexp, const Attention& attention);

struct AttentionGrads {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor bias;  // of the bias before it was expanded: of size 1 where that repeats
};

// An undefined gradient is one that the caller does not need. output is the forward's.
void compute_attention_backward(const AttentionGrads& grads, const at::Tensor& grad_output, const at::Tensor& output,
                                const at::Tensor& logsumexp, const Attention& attention);

// Whether a library computes this (flash.cpp), all but the gradient of a bias. The kernels here compute all.
bool library_attends(const Attention& attention);
void launch_library_attention(const at::Tensor& output, const at::Tensor& logsumexp, const Attention& attention);
void launch_library_attention_backward(const AttentionGrads& grads, const at::Tensor& grad_output,
                                       const at::Tensor& output, const at::Tensor& logsumexp,
                                       const Attention& attention);

}  // namespace openreg
