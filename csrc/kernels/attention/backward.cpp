// The backward pass of attention: one kernel for all gradients. It recomputes each block of weights from the logsumexp
// that the forward pass saved, and the dropout mask from the same random numbers.
#include <ATen/Dispatch_v2.h>

#include <cmath>
#include <limits>

#include "kernels/attention/block.h"

namespace openreg {
namespace {

// Several query heads may contribute to one key head, and every batch to one bias. One thread therefore accumulates in
// the math type, in a fixed order, and rounds once. A device with many threads needs atomic additions, or a second
// pass.
template <class T>
struct HeadSums {
  using Math = at::opmath_type<T>;
  Strided<T, 4> grad;
  std::vector<Matrix<Math>> heads;

  HeadSums(const Strided<T, 4>& result, int64_t head_count, int64_t positions, int64_t columns)
      : grad(result), heads(head_count, Matrix<Math>(positions, columns)) {}

  void store(int64_t batch) {
    for (int64_t head = 0; grad.data() != nullptr && head < grad.size(1); ++head) {
      for (int64_t row = 0; row < grad.size(2); ++row) {
        for (int64_t column = 0; column < grad.size(3); ++column) {
          grad[batch][head][row][column] = static_cast<T>(heads[head][row][column]);
        }
      }
    }
  }
};

// One sum for each element of the bias itself, however often expanding repeated it.
template <class T>
struct BiasSums {
  using Math = at::opmath_type<T>;
  Strided<T, 4> grad;
  Matrix<Math> sums;

  explicit BiasSums(const Strided<T, 4>& result)
      : grad(result), sums(result.size(0) * result.size(1) * result.size(2), result.size(3)) {}

  int64_t row_of(int64_t batch, int64_t head, int64_t row) const {
    const auto place = [&](int dim, int64_t index) { return grad.size(dim) == 1 ? 0 : index; };
    return (place(0, batch) * grad.size(1) + place(1, head)) * grad.size(2) + place(2, row);
  }

  void add(int64_t batch, int64_t head, int64_t row, const Math* addend, int64_t count) {
    for (int64_t i = 0; grad.data() != nullptr && i < count; ++i) {
      sums[row_of(batch, head, row)][grad.size(3) == 1 ? 0 : i] += addend[i];
    }
  }

  void store() {
    for (int64_t batch = 0; batch < grad.size(0); ++batch) {
      for (int64_t head = 0; head < grad.size(1); ++head) {
        for (int64_t row = 0; row < grad.size(2); ++row) {
          for (int64_t column = 0; column < grad.size(3); ++column) {
            grad[batch][head][row][column] = static_cast<T>(sums[row_of(batch, head, row)][column]);
          }
        }
      }
    }
  }
};

// LITERALINCLUDE START: attention-kernel-backward
template <class T>
struct AttentionBackward {
  using Math = at::opmath_type<T>;
  AttentionBlock<T> of;
  Strided<const T, 4> key;
  Strided<const T, 4> value;
  Strided<const T, 4> grad_output;
  Strided<const Math, 3> logsumexp;
  Strided<T, 4> grad_query;  // null if it is not needed, as are the other three
  Strided<T, 4> grad_key;
  Strided<T, 4> grad_value;
  Strided<T, 4> grad_bias;
  const int64_t* philox_seed;
  const int64_t* philox_offset;

  void operator()() {
    BiasSums<T> bias_sums(grad_bias);
    for (int64_t batch = 0; batch < of.query.size(0); ++batch) {
      HeadSums<T> key_sums(grad_key, key.size(1), key.size(2), key.size(3));
      HeadSums<T> value_sums(grad_value, value.size(1), value.size(2), value.size(3));
      for (int64_t head = 0; head < of.query.size(1); ++head) {
        const int64_t key_head = head * key.size(1) / of.query.size(1);
        const int64_t value_head = head * value.size(1) / of.query.size(1);
        retrace(batch, head, key[batch][key_head], value[batch][value_head], key_sums.heads[key_head],
                value_sums.heads[value_head], bias_sums);
      }
      key_sums.store(batch);
      value_sums.store(batch);
    }
    bias_sums.store();
  }

  template <class Head>
  void retrace(int64_t batch, int64_t head, const Head& key_of, const Head& value_of, Matrix<Math>& key_sums,
               Matrix<Math>& value_sums, BiasSums<T>& bias_sums) {
    const PhiloxSequence sequence{static_cast<uint64_t>(*philox_seed), static_cast<uint64_t>(*philox_offset)};
    const auto keys = dense<T>(key_of);
    const auto values = dense<T>(value_of);
    for (int64_t first = 0; first < of.query.size(2); first += kBlock) {
      const int64_t rows = std::min(kBlock, of.query.size(2) - first);
      const auto queries = dense<T>(of.query[batch][head], first, rows);
      const auto grad_rows = dense<T>(grad_output[batch][head], first, rows);
      Matrix<Math> weights = of.scores(queries, keys, batch, head, first);
      Matrix<Math> dropped(rows, keys.rows);  // the weights after dropout
      Matrix<Math> grads(rows, keys.rows);
      add_product(grads, Math(1), grad_rows, As::kItIs, values, As::kTranspose);
      for (int64_t row = 0; row < rows; ++row) {
        const Math log_total = logsumexp[batch][head][first + row];
        const bool hidden = log_total == -std::numeric_limits<Math>::infinity();  // the mask hides all columns
        const int64_t count = hidden ? 0 : of.visible(first + row, keys.rows);
        retrace_row(weights[row], dropped[row], grads[row], log_total, count,
                    of.kept(sequence, batch, head, first + row, keys.rows, count));
        std::fill(grads[row] + count, grads[row] + keys.rows, Math(0));
        bias_sums.add(batch, head, first + row, grads[row], count);
      }
      add_product(value_sums, Math(1), dropped, As::kTranspose, grad_rows, As::kItIs);
      add_product(key_sums, of.scale, grads, As::kTranspose, queries, As::kItIs);
      Matrix<Math> query_sums(rows, keys.columns);
      add_product(query_sums, of.scale, grads, As::kItIs, keys, As::kItIs);
      for (int64_t row = 0; grad_query.data() != nullptr && row < rows; ++row) {
        for (int64_t i = 0; i < keys.columns; ++i) {
          grad_query[batch][head][first + row][i] = static_cast<T>(query_sums[row][i]);
        }
      }
    }
  }

  // Scores become weights, and gradients of the weights after dropout become gradients of the scores.
  static void retrace_row(Math* scores, Math* dropped, Math* grads, Math log_total, int64_t count,
                          const std::vector<Math>& kept) {
    Math weighted = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Math factor = kept[i];
      scores[i] = std::exp(scores[i] - log_total);
      dropped[i] = scores[i] * factor;
      grads[i] *= factor;
      weighted += scores[i] * grads[i];
    }
    for (int64_t i = 0; i < count; ++i) {
      grads[i] = scores[i] * (grads[i] - weighted);
    }
  }
};
// LITERALINCLUDE END: attention-kernel-backward

}  // namespace

void compute_attention_backward(const AttentionGrads& grads, const at::Tensor& grad_output, const at::Tensor& output,
                                const at::Tensor& logsumexp, const Attention& attention) {
  if (library_attends(attention) && !grads.bias.defined()) {
    launch_library_attention_backward(grads, grad_output, output, logsumexp, attention);
    return;
  }
  AT_DISPATCH_V2(
      grad_output.scalar_type(), "scaled_dot_product_attention_backward", AT_WRAP([&] {
        using Math = at::opmath_type<scalar_t>;
        launch("scaled_dot_product_attention_backward", grad_output.device().index(),
               logsumexp.nbytes() * attention.key.size(2),
               AttentionBackward<scalar_t>{
                   block_of<scalar_t>(attention), strided<const scalar_t, 4>(attention.key),
                   strided<const scalar_t, 4>(attention.value), strided<const scalar_t, 4>(grad_output),
                   strided<const Math, 3>(logsumexp), strided<scalar_t, 4>(grads.query),
                   strided<scalar_t, 4>(grads.key), strided<scalar_t, 4>(grads.value), strided<scalar_t, 4>(grads.bias),
                   host_alias(attention.philox_seed.const_data_ptr<int64_t>(), sizeof(int64_t)),
                   host_alias(attention.philox_offset.const_data_ptr<int64_t>(), sizeof(int64_t))});
      }),
      AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}

}  // namespace openreg
