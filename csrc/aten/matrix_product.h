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

// Queues out = alpha * a b + addend, and returns true. Returns false where BLAS has no such product: for another dtype,
// for strides that are not those of a matrix of BLAS, for lazy bits, for matrices without elements, and for an output
// that is a factor too.
// Throws: RuntimeError when the addend cannot be expanded to the sizes of the output.
bool launch_blas_product(const char* name, const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                         const at::Scalar& alpha, const Addend& addend);
// LITERALINCLUDE END: product-contract

// LITERALINCLUDE START: product-kernel
// The kernel of mm and of addmm: what BLAS does not take, the library of tensors does.
template <class Op, bool kWaits>
struct MatrixProduct {
  static void launch(const Outputs& outputs, const at::Tensor& a, const at::Tensor& b) {
    if (!launch_blas_product(Op::kName, outputs.get(0), a, b, 1, {})) {
      LibraryKernel<Op, kWaits>::launch(outputs, a, b);
    }
  }
  static void launch(const Outputs& outputs, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                     const at::Scalar& beta, const at::Scalar& alpha) {
    if (!launch_blas_product(Op::kName, outputs.get(0), a, b, alpha, {self, beta})) {
      LibraryKernel<Op, kWaits>::launch(outputs, self, a, b, beta, alpha);
    }
  }
};
// LITERALINCLUDE END: product-kernel

}  // namespace openreg
