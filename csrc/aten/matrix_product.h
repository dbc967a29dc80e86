// Matrix products on a library that takes addresses: BLAS, whose interface every vendor's library has in some form.
//
// For kernel files only (see launch.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include "aten/host_library.h"
#include "aten/structured.h"

namespace openreg {

// LITERALINCLUDE START: product-contract
// What is added to a product: beta * tensor. Undefined without one.
struct Addend {
  at::Tensor tensor;
  at::Scalar beta;
};

// Queues out = alpha * a b + addend, where out is no factor, and returns true. Returns false where BLAS has no such
// product: for another dtype, for strides that are not those of a matrix of BLAS, for lazy bits, for matrices without
// elements, and for an output that is a factor too. Throws: RuntimeError when the addend cannot be expanded to the
// sizes of the output.
bool launch_blas_product(const char* name, const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                         const at::Scalar& alpha, const Addend& addend);
// LITERALINCLUDE END: product-contract

// LITERALINCLUDE START: product-kernel
// The kernel of mm and of addmm: what BLAS does not take, the library of tensors does.
template <class Op, bool kWaits>
struct MatrixProduct {
  static void launch(const Outputs& outputs, const at::Tensor& a, const at::Tensor& b) {
    if (is_factor(outputs.get(0), a, b)) {
      launch(outputs, a.clone(), b.clone());
    } else if (!launch_blas_product(Op::kName, outputs.get(0), a, b, 1, {})) {
      LibraryKernel<Op, kWaits>::launch(outputs, a, b);
    }
  }
  static void launch(const Outputs& outputs, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                     const at::Scalar& beta, const at::Scalar& alpha) {
    if (is_factor(outputs.get(0), a, b)) {
      launch(outputs, self, a.clone(), b.clone(), beta, alpha);
    } else if (!launch_blas_product(Op::kName, outputs.get(0), a, b, alpha, {self, beta})) {
      LibraryKernel<Op, kWaits>::launch(outputs, self, a, b, beta, alpha);
    }
  }

 private:
  // A library reads a factor again after it has begun to write. What it makes of one that is the output depends on the
  // processor.
  static bool is_factor(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
    return out.numel() > 0 && (out.data_ptr() == a.data_ptr() || out.data_ptr() == b.data_ptr());
  }
};
// LITERALINCLUDE END: product-kernel

}  // namespace openreg
