// Matrix products of the BLAS that PyTorch is linked with. For kernel files only: see Note [Host code as kernels].
#pragma once

#include <c10/util/complex.h>

#include <type_traits>

// LITERALINCLUDE START: product-blas
// Functions of BLAS. They take addresses of column-major matrices. Weak symbols: null in a build of PyTorch that does
// not export its BLAS.
template <class T>
using BlasProduct = void(const char* transposed_a, const char* transposed_b, const int* rows, const int* columns,
                         const int* inner, const T* alpha, const T* a, const int* leading_a, const T* b,
                         const int* leading_b, const T* beta, T* out, const int* leading_out);

extern "C" {
[[gnu::weak]] BlasProduct<float> sgemm_;
[[gnu::weak]] BlasProduct<double> dgemm_;
[[gnu::weak]] BlasProduct<c10::complex<float>> cgemm_;
[[gnu::weak]] BlasProduct<c10::complex<double>> zgemm_;
}
// LITERALINCLUDE END: product-blas

namespace openreg {

// The product of two real matrices, by the type of their elements.
template <class T>
BlasProduct<T>* real_product() {
  if constexpr (std::is_same_v<T, float>) {
    return sgemm_;
  } else {
    static_assert(std::is_same_v<T, double>);
    return dgemm_;
  }
}

}  // namespace openreg
