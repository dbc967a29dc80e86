// What the forward and backward kernels of attention share: their view of memory, and the scores of one row.
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
#include "kernels/random/distributions.h"

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

// A dense matrix of the math type: scratch memory of a kernel. `transposed` has one row for each column of the source,
// so that a loop over all positions reads and writes adjacent elements.
template <class Math>
struct Matrix {
  int64_t columns;
  std::vector<Math> data;

  Matrix(int64_t row_count, int64_t column_count) : columns(column_count), data(row_count * column_count) {}
  Math* operator[](int64_t row) { return data.data() + row * columns; }
  const Math* operator[](int64_t row) const { return data.data() + row * columns; }
};

template <class T, class Head>
Matrix<at::opmath_type<T>> dense(const Head& head) {
  Matrix<at::opmath_type<T>> matrix(head.size(0), head.size(1));
  for (int64_t row = 0; row < head.size(0); ++row) {
    for (int64_t column = 0; column < head.size(1); ++column) {
      matrix[row][column] = static_cast<at::opmath_type<T>>(head[row][column]);
    }
  }
  return matrix;
}

template <class T, class Head>
Matrix<at::opmath_type<T>> transposed(const Head& head) {
  Matrix<at::opmath_type<T>> matrix(head.size(1), head.size(0));
  for (int64_t row = 0; row < head.size(0); ++row) {
    for (int64_t column = 0; column < head.size(1); ++column) {
      matrix[column][row] = static_cast<at::opmath_type<T>>(head[row][column]);
    }
  }
  return matrix;
}

// sum += factor * addend
template <class Math>
void add_scaled(Math* __restrict__ sum, Math factor, const Math* __restrict__ addend, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    sum[i] += factor * addend[i];
  }
}

// LITERALINCLUDE START: attention-kernel-scores
// What both kernels compute for a row: its scores, and the dropout factors of its weights.
template <class T>
struct AttentionRow {
  using Math = at::opmath_type<T>;
  Strided<const T, 4> query;
  Strided<const T, 4> bias;  // null if there is none
  Math scale;
  bool is_causal;
  double keep_probability;

  // The number of columns that the row may see. The causal mask is aligned to the upper left corner.
  int64_t visible(int64_t row, int64_t columns) const { return is_causal ? std::min(row + 1, columns) : columns; }

  void scores(Math* out, const Math* query_row, const Matrix<Math>& keys_by_column, int64_t batch, int64_t head,
              int64_t row, int64_t count) const {
    std::fill_n(out, count, Math(0));
    for (int64_t column = 0; column < query.size(3); ++column) {
      add_scaled(out, query_row[column] * scale, keys_by_column[column], count);
    }
    for (int64_t i = 0; bias.data() != nullptr && i < count; ++i) {
      out[i] += static_cast<Math>(bias[batch][head][row][i]);
    }
  }

  // The dropout factor of a weight: 0 if it is dropped. The position of a weight determines its random number, so the
  // backward pass draws the same one.
  Math kept(const PhiloxSequence& sequence, int64_t batch, int64_t head, int64_t row, int64_t column,
            int64_t columns) const {
    if (keep_probability == 1) {
      return 1;
    }
    const uint64_t number = ((batch * query.size(1) + head) * query.size(2) + row) * columns + column;
    return happens(sequence[number], keep_probability) ? static_cast<Math>(1 / keep_probability) : 0;
  }
};
// LITERALINCLUDE END: attention-kernel-scores

template <class T>
AttentionRow<T> row_of(const Attention& attention) {
  return {strided<const T, 4>(attention.query), strided<const T, 4>(attention.bias),
          static_cast<at::opmath_type<T>>(attention.scale), attention.is_causal, 1 - attention.dropout_p};
}

}  // namespace openreg
