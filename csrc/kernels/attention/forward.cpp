// The forward pass of attention: one kernel, which stores no matrix of all pairs of positions. It computes a block of
// rows of weights at a time, uses it, and discards it.
#include <ATen/Dispatch_v2.h>

#include <cmath>
#include <limits>

#include "kernels/attention/block.h"
#include "kernels/random/random_loop.h"
#include "runtime/generator.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: attention-kernel-forward
template <class T>
struct AttentionForward {
  using Math = at::opmath_type<T>;
  AttentionBlock<T> of;
  Strided<const T, 4> key;
  Strided<const T, 4> value;
  Strided<T, 4> output;
  Strided<Math, 3> logsumexp;
  PhiloxSequence sequence;
  int64_t* philox_seed;
  int64_t* philox_offset;

  void operator()() {
    const PhiloxSequence now = sequence.now();
    *philox_seed = static_cast<int64_t>(now.seed);
    *philox_offset = static_cast<int64_t>(now.offset);
    for (int64_t batch = 0; batch < output.size(0); ++batch) {
      for (int64_t head = 0; head < output.size(1); ++head) {
        attend(batch, head);
      }
    }
  }

  void attend(int64_t batch, int64_t head) {
    const auto keys = dense<T>(key[batch][head * key.size(1) / output.size(1)]);
    const auto values = dense<T>(value[batch][head * value.size(1) / output.size(1)]);
    for (int64_t first = 0; first < output.size(2); first += kBlock) {
      const auto queries = dense<T>(of.query[batch][head], first, std::min(kBlock, output.size(2) - first));
      Matrix<Math> weights = of.scores(queries, keys, batch, head, first);
      for (int64_t row = 0; row < queries.rows; ++row) {
        const int64_t count = of.visible(first + row, keys.rows);
        logsumexp[batch][head][first + row] = softmax(weights[row], count);
        std::fill(weights[row] + count, weights[row] + keys.rows, Math(0));
        const auto kept = of.kept(sequence, batch, head, first + row, keys.rows, count);
        for (int64_t i = 0; i < count; ++i) {
          weights[row][i] *= kept[i];
        }
      }
      Matrix<Math> sums(queries.rows, values.columns);
      add_product(sums, Math(1), weights, As::kItIs, values, As::kItIs);
      for (int64_t row = 0; row < queries.rows; ++row) {
        for (int64_t i = 0; i < values.columns; ++i) {
          output[batch][head][first + row][i] = static_cast<T>(sums[row][i]);
        }
      }
    }
  }

  // Turns scores into weights. Returns the logarithm of the sum of their exponentials: minus infinity where a mask
  // hides all columns. All weights of such a row are 0, as in PyTorch's math.
  static Math softmax(Math* row, int64_t count) {
    Math largest = -std::numeric_limits<Math>::infinity();
    for (int64_t i = 0; i < count; ++i) {
      largest = std::isnan(largest) || row[i] <= largest ? largest : row[i];  // a NaN propagates
    }
    if (largest == -std::numeric_limits<Math>::infinity()) {
      std::fill_n(row, count, Math(0));
      return largest;
    }
    Math total = 0;
    for (int64_t i = 0; i < count; ++i) {
      total += row[i] = std::exp(row[i] - largest);
    }
    for (int64_t i = 0; i < count; ++i) {
      row[i] /= total;
    }
    return largest + std::log(total);
  }
};
// LITERALINCLUDE END: attention-kernel-forward

}  // namespace

// LITERALINCLUDE START: attention-launch-forward
void compute_attention(const at::Tensor& output, const at::Tensor& logsumexp, const Attention& attention) {
  if (library_attends(attention)) {
    launch_library_attention(output, logsumexp, attention);
    return;
  }
  const c10::Device device = output.device();
  // The generator advances only if numbers are drawn.
  const bool draws = attention.dropout_p > 0;
  const int64_t pairs = output.size(0) * output.size(1) * output.size(2) * attention.key.size(2);
  const Positions first = draws ? reserve_positions(std::nullopt, device, pairs) : Positions();
  AT_DISPATCH_V2(output.scalar_type(), "scaled_dot_product_attention", AT_WRAP([&] {
                   using Math = at::opmath_type<scalar_t>;
                   launch("scaled_dot_product_attention", device.index(), pairs * sizeof(Math),
                          AttentionForward<scalar_t>{
                              block_of<scalar_t>(attention), strided<const scalar_t, 4>(attention.key),
                              strided<const scalar_t, 4>(attention.value), strided<scalar_t, 4>(output),
                              strided<Math, 3>(logsumexp), sequence_of(first),
                              host_alias(attention.philox_seed.mutable_data_ptr<int64_t>(), sizeof(int64_t)),
                              host_alias(attention.philox_offset.mutable_data_ptr<int64_t>(), sizeof(int64_t))});
                 }),
                 AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}
// LITERALINCLUDE END: attention-launch-forward

}  // namespace openreg
