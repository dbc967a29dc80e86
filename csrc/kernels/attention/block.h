// What the forward and backward kernels of attention share: their view of memory, and the scores of a block of rows.
// For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/TensorAccessor.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/launch.h"
#include "kernels/linalg/blas.h"
#include "kernels/random/distributions.h"
#include "kernels/random/random_values.h"

namespace openreg {

// A tensor in device memory with its sizes and strides, for indexing inside a kernel. An undefined tensor has sizes of
// 0 and a null pointer.
template <class T, size_t N>
using Strided = at::PackedTensorAccessor64<T, N>;

template <class T, size_t N>
Strided<T, N> strided(const at::Tensor& tensor) {
  constexpr std::array<int64_t, N> kNone{};
  if (!tensor.defined()) {
    return {nullptr, kNone.data(), kNone.data()};
  }
  if (tensor.numel() == 0) {
    return {nullptr, tensor.sizes().data(), kNone.data()};  // strides of 0: no arithmetic on a null pointer
  }
  const size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
  T* data = nullptr;
  if constexpr (std::is_const_v<T>) {
    data = tensor.const_data_ptr<std::remove_const_t<T>>();
  } else {
    data = tensor.mutable_data_ptr<T>();
  }
  return {host_alias(data, bytes), tensor.sizes().data(), tensor.strides().data()};
}

// LITERALINCLUDE START: attention-kernel-matrix
// The number of rows that a kernel computes at once: enough for fast matrix products, few enough that their weights
// stay in the cache.
constexpr int64_t kBlock = 32;

// A dense matrix of the math type: scratch memory of a kernel.
template <class Math>
struct Matrix {
  int64_t rows;
  int64_t columns;
  std::vector<Math> data;

  Matrix(int64_t row_count, int64_t column_count)
      : rows(row_count), columns(column_count), data(row_count * column_count) {}
  Math* operator[](int64_t row) { return data.data() + row * columns; }
};

// Some rows of a head: [position, column].
template <class T, class Head>
Matrix<at::opmath_type<T>> dense(const Head& head, int64_t first, int64_t count) {
  Matrix<at::opmath_type<T>> matrix(count, head.size(1));
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t column = 0; column < head.size(1); ++column) {
      matrix[row][column] = static_cast<at::opmath_type<T>>(head[first + row][column]);
    }
  }
  return matrix;
}

template <class T, class Head>
Matrix<at::opmath_type<T>> dense(const Head& head) {
  return dense<T>(head, 0, head.size(0));
}

enum class As : char { kItIs = 'N', kTranspose = 'T' };

// sum += factor * a b. BLAS is column-major, so it sees the transpose of each matrix; and the transpose of a b is the
// product of the transposes of b and a. Requires: BLAS (see attention_refusal).
template <class Math>
void add_product(Matrix<Math>& sum, Math factor, const Matrix<Math>& a, As as_a, const Matrix<Math>& b, As as_b) {
  const auto inner = static_cast<int>(as_a == As::kItIs ? a.columns : a.rows);
  if (sum.data.empty() || inner == 0) {
    return;
  }
  const auto rows = static_cast<int>(sum.rows);
  const auto columns = static_cast<int>(sum.columns);
  const auto leading_a = static_cast<int>(a.columns);
  const auto leading_b = static_cast<int>(b.columns);
  const char first = static_cast<char>(as_b);
  const char second = static_cast<char>(as_a);
  const Math one = 1;
  real_product<Math>()(&first, &second, &columns, &rows, &inner, &factor, b.data.data(), &leading_b, a.data.data(),
                       &leading_a, &one, sum.data.data(), &columns);
}
// LITERALINCLUDE END: attention-kernel-matrix

// LITERALINCLUDE START: attention-kernel-scores
// What both kernels compute for a block of rows: their scores, and the dropout factors of their weights.
template <class T>
struct AttentionBlock {
  using Math = at::opmath_type<T>;
  Strided<const T, 4> query;
  Strided<const T, 4> bias;  // null if there is none
  Math scale;
  bool is_causal;
  double keep_probability;

  // The number of columns that the row may see. The causal mask is aligned to the upper left corner.
  int64_t visible(int64_t row, int64_t columns) const { return is_causal ? std::min(row + 1, columns) : columns; }

  // One row of scores for each query, which are the rows from `first` on.
  Matrix<Math> scores(const Matrix<Math>& queries, const Matrix<Math>& keys, int64_t batch, int64_t head,
                      int64_t first) const {
    Matrix<Math> result(queries.rows, keys.rows);
    add_product(result, scale, queries, As::kItIs, keys, As::kTranspose);
    for (int64_t row = 0; bias.data() != nullptr && row < queries.rows; ++row) {
      for (int64_t i = 0; i < keys.rows; ++i) {
        result[row][i] += static_cast<Math>(bias[batch][head][first + row][i]);
      }
    }
    return result;
  }

  // The dropout factors of the first `count` weights of a row: 0 for those that are dropped. The position of a weight
  // determines its random number, so the backward pass draws the same one.
  std::vector<Math> kept(const PhiloxSequence& sequence, int64_t batch, int64_t head, int64_t row, int64_t columns,
                         int64_t count) const {
    std::vector<Math> factors(count, Math(1));
    if (keep_probability == 1) {
      return factors;
    }
    const uint64_t number = ((batch * query.size(1) + head) * query.size(2) + row) * columns;
    RandomValues<bool, Bernoulli<bool>> values(sequence, Bernoulli<bool>(keep_probability), number, count);
    for (auto factor = factors.begin(); factor != factors.end();) {
      for (const bool is_kept : values.next(factors.end() - factor)) {
        *factor++ = is_kept ? static_cast<Math>(1 / keep_probability) : 0;
      }
    }
    return factors;
  }
};
// LITERALINCLUDE END: attention-kernel-scores

template <class T>
AttentionBlock<T> block_of(const Attention& attention) {
  return {strided<const T, 4>(attention.query), strided<const T, 4>(attention.bias),
          static_cast<at::opmath_type<T>>(attention.scale), attention.is_causal, 1 - attention.dropout_p};
}

}  // namespace openreg
