// The backward pass of attention: one kernel for all gradients. It recomputes each row of weights from the logsumexp
// that the forward pass saved, and the dropout mask from the same random numbers.
#include <ATen/Dispatch_v2.h>

#include <cmath>
#include <limits>

#include "kernels/attention/row.h"

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
  AttentionRow<T> of;
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
    const auto queries = dense<T>(of.query[batch][head]);
    const auto keys = dense<T>(key_of);
    const auto keys_by_column = transposed<T>(key_of);
    const auto values_by_column = transposed<T>(value_of);
    const auto grad_rows = dense<T>(grad_output[batch][head]);
    std::vector<Math> weights(key.size(2));
    std::vector<Math> grads(key.size(2));
    std::vector<Math> query_sum(key.size(3));
    for (int64_t row = 0; row < of.query.size(2); ++row) {
      const Math log_total = logsumexp[batch][head][row];
      const bool hidden = log_total == -std::numeric_limits<Math>::infinity();  // the mask hides all columns
      const int64_t count = hidden ? 0 : of.visible(row, key.size(2));
      of.scores(weights.data(), queries[row], keys_by_column, batch, head, row, count);
      std::fill_n(grads.data(), count, Math(0));
      for (int64_t column = 0; column < value.size(3); ++column) {
        add_scaled(grads.data(), grad_rows[row][column], values_by_column[column], count);
      }
      Math weighted = 0;
      for (int64_t i = 0; i < count; ++i) {
        const Math factor = of.kept(sequence, batch, head, row, i, key.size(2));
        weights[i] = std::exp(weights[i] - log_total);
        add_scaled(value_sums[i], weights[i] * factor, grad_rows[row], value.size(3));
        grads[i] *= factor;
        weighted += weights[i] * grads[i];
      }
      std::ranges::fill(query_sum, Math(0));
      for (int64_t i = 0; i < count; ++i) {
        grads[i] = weights[i] * (grads[i] - weighted);  // from here on the gradient of the score
        add_scaled(query_sum.data(), grads[i] * of.scale, keys[i], key.size(3));
        add_scaled(key_sums[i], grads[i] * of.scale, queries[row], key.size(3));
      }
      bias_sums.add(batch, head, row, grads.data(), count);
      for (int64_t i = 0; grad_query.data() != nullptr && i < key.size(3); ++i) {
        grad_query[batch][head][row][i] = static_cast<T>(query_sum[i]);
      }
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
                   row_of<scalar_t>(attention), strided<const scalar_t, 4>(attention.key),
                   strided<const scalar_t, 4>(attention.value), strided<const scalar_t, 4>(grad_output),
                   strided<const Math, 3>(logsumexp), strided<scalar_t, 4>(grads.query),
                   strided<scalar_t, 4>(grads.key), strided<scalar_t, 4>(grads.value), strided<scalar_t, 4>(grads.bias),
                   host_alias(attention.philox_seed.const_data_ptr<int64_t>(), sizeof(int64_t)),
                   host_alias(attention.philox_offset.const_data_ptr<int64_t>(), sizeof(int64_t))});
      }),
      AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}

}  // namespace openreg
