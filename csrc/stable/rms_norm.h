// What the kernels of openreg_stable::rms_norm share on every device: the argument checks, and the arithmetic of a row.
// This folder uses only those headers of PyTorch whose binary interface is stable.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace openreg_stable {

// Throws: for a dtype that is not floating point, and for a weight that does not fit the last dimension.
void check_rms_norm(const torch::stable::Tensor& input, const torch::stable::Tensor& weight);

// LITERALINCLUDE START: stable-rows
// The work of an operator as addresses and numbers, without tensors, so that threads and the device can run it.
template <class T>
struct RmsNormRows {
  using Math = std::conditional_t<std::is_same_v<T, double>, double, float>;  // float for half and bfloat16

  T* out;
  const T* in;
  const T* weight;
  int64_t rows;
  int64_t columns;
  double eps;

  void run(int64_t first, int64_t last) const {
    for (int64_t row = first; row < last; ++row) {
      const T* from = in + row * columns;
      T* to = out + row * columns;
      double squares = 0;  // a sum of many terms: float would lose digits
      for (int64_t i = 0; i < columns; ++i) {
        squares += static_cast<double>(from[i]) * static_cast<double>(from[i]);
      }
      const auto scale = static_cast<Math>(1 / std::sqrt(squares / static_cast<double>(columns) + eps));
      for (int64_t i = 0; i < columns; ++i) {
        to[i] = static_cast<T>(static_cast<Math>(from[i]) * scale * static_cast<Math>(weight[i]));
      }
    }
  }
};

// Requires: contiguous tensors of dtype T that check_rms_norm accepts, with at least one element.
template <class T>
RmsNormRows<T> rms_norm_rows(const torch::stable::Tensor& out, const torch::stable::Tensor& in,
                             const torch::stable::Tensor& weight, double eps) {
  const int64_t columns = weight.numel();
  return {.out = out.mutable_data_ptr<T>(),
          .in = in.const_data_ptr<T>(),
          .weight = weight.const_data_ptr<T>(),
          .rows = in.numel() / columns,
          .columns = columns,
          .eps = eps};
}
// LITERALINCLUDE END: stable-rows

}  // namespace openreg_stable
