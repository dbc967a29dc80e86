// Matrix products on a library that takes addresses: BLAS, whose interface every vendor's library has in some form.
//
// For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {

// LITERALINCLUDE START: product-contract
// What is added to a product: beta * tensor, where the tensor has the sizes of the output. Undefined if there is none.
struct Addend {
  at::Tensor tensor;
  at::Scalar beta;
};

// Queues out = alpha * a b + addend, and returns true. Returns false if BLAS has no such product: for other dtypes,
// strides that BLAS cannot express, lazy bits, and matrices without elements. Requires: no argument overlaps the
// output, except an addend that is the output.
bool launch_blas_product(const char* name, const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                         const at::Scalar& alpha, const Addend& addend);
// LITERALINCLUDE END: product-contract

// LITERALINCLUDE START: product-overlap
// Whether an argument overlaps the output. A library reads arguments again after it has begun to write, and the result
// of reading one that it has overwritten depends on the processor.
bool is_read_late(const at::Tensor& out, const at::Tensor& argument);

// Whether an addend is the output itself, element by element, as BLAS expects.
inline bool is_same(const at::Tensor& out, const at::Tensor& added) {
  return out.data_ptr() == added.data_ptr() && out.strides() == added.strides();
}

inline bool is_any_read_late(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return is_read_late(out, a) || is_read_late(out, b);
}
// The same with an addend of the output's sizes.
inline bool is_any_read_late(const at::Tensor& out, const at::Tensor& added, const at::Tensor& a, const at::Tensor& b) {
  return is_any_read_late(out, a, b) || (is_read_late(out, added) && !is_same(out, added));
}
// LITERALINCLUDE END: product-overlap

// LITERALINCLUDE START: product-kernel
// The kernel of mm and addmm: products that BLAS does not take go to the tensor library.
template <class Op, bool kWaits>
struct MatrixProduct {
  static constexpr bool kCopiesOverlap = true;

  static void enqueue(const Outputs& outputs, const at::Tensor& a, const at::Tensor& b) {
    if (is_any_read_late(outputs.get(0), a, b)) {
      enqueue(outputs, a.clone(), b.clone());
    } else if (!launch_blas_product(Op::kName, outputs.get(0), a, b, 1, {})) {
      LibraryKernel<Op, kWaits>::enqueue(outputs, a, b);
    }
  }
  static void enqueue(const Outputs& outputs, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                      const at::Scalar& beta, const at::Scalar& alpha) {
    const at::Tensor& out = outputs.get(0);
    if (self.dim() > out.dim()) host_view(self).expand(out.sizes());  // Throws: a message without the device's type.
    const at::Tensor added = self.expand(out.sizes());  // Throws: if it does not fit.
    if (is_any_read_late(out, added, a, b)) {
      enqueue(outputs, self.clone(), a.clone(), b.clone(), beta, alpha);
    } else if (!launch_blas_product(Op::kName, out, a, b, alpha, {added, beta})) {
      LibraryKernel<Op, kWaits>::enqueue(outputs, self, a, b, beta, alpha);
    }
  }
};

// The kernel of bmm and baddbmm, which the tensor library computes.
template <class Op, bool kWaits>
struct BatchProduct {
  static constexpr bool kCopiesOverlap = true;
  static constexpr bool kMetaWrites = true;

  static void enqueue(const Outputs& outputs, const at::Tensor& a, const at::Tensor& b) {
    is_any_read_late(outputs.get(0), a, b) ? LibraryKernel<Op, kWaits>::enqueue(outputs, a.clone(), b.clone())
                                           : LibraryKernel<Op, kWaits>::enqueue(outputs, a, b);
  }
  static void enqueue(const Outputs& outputs, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                      const at::Scalar& beta, const at::Scalar& alpha) {
    const at::Tensor& out = outputs.get(0);
    // The library raises if the addend does not fit.
    const bool is_late =
        at::is_expandable_to(self.sizes(), out.sizes()) && is_any_read_late(out, self.expand(out.sizes()), a, b);
    is_late ? LibraryKernel<Op, kWaits>::enqueue(outputs, self.clone(), a.clone(), b.clone(), beta, alpha)
            : LibraryKernel<Op, kWaits>::enqueue(outputs, self, a, b, beta, alpha);
  }
};

// The product of a matrix and a vector. For a matrix without elements the library loses the sizes of the output.
template <class Op, bool kWaits>
struct VectorProduct {
  static constexpr bool kCopiesOverlap = true;

  static void enqueue(const Outputs& outputs, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                      const at::Scalar& beta, const at::Scalar& alpha) {
    if (a.numel() != 0) {
      BatchProduct<Op, kWaits>::enqueue(outputs, self, a, b, beta, alpha);
      return;
    }
    const at::Tensor& out = outputs.get(0);
    out.copy_(self.expand(out.sizes()));
    beta.equal(0) ? out.zero_() : out.mul_(beta);  // With beta 0, self is ignored, even NaN.
  }
};

// The product of two vectors. PyTorch passes zeros without memory, which stand for an absent tangent, on to it.
template <class Op, bool kWaits>
struct DotProduct {
  static void enqueue(const Outputs& outputs, const at::Tensor& a, const at::Tensor& b) {
    if (a._is_zerotensor() || b._is_zerotensor()) {
      outputs.get(0).zero_();
    } else {
      LibraryKernel<Op, kWaits>::enqueue(outputs, a, b);
    }
  }
};
// LITERALINCLUDE END: product-kernel

}  // namespace openreg
