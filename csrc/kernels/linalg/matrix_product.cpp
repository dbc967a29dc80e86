// The product of two matrices with BLAS. The function that multiplies is the host's here, and the device library's at a
// vendor; the handling of strides stays the same. Called on any thread, with or without the GIL; BLAS runs on the
// device's stream.
#include "kernels/linalg/matrix_product.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

#include "kernels/launch.h"
#include "kernels/linalg/blas.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: product-matrix
// The layout of a matrix in memory.
struct Matrix {
  const at::Tensor* tensor;
  int64_t rows;
  int64_t columns;
  int64_t row_stride;  // elements from one row to the next
  int64_t column_stride;  // and from one column to the next

  explicit Matrix(const at::Tensor& of)
      : tensor(&of), rows(of.size(0)), columns(of.size(1)), row_stride(of.stride(0)), column_stride(of.stride(1)) {}

  void transpose() {
    std::swap(rows, columns);
    std::swap(row_stride, column_stride);
  }
  // The distance between rows, if the elements of a row are adjacent: what BLAS calls the leading dimension. The stride
  // of a dimension of size 1 has no meaning, and BLAS checks that a row fits.
  std::optional<int> leading() const {
    const int64_t way = rows > 1 ? row_stride : columns;
    const bool fits = (columns == 1 || column_stride == 1) && way >= columns && way <= INT_MAX;
    return fits ? std::optional(static_cast<int>(way)) : std::nullopt;
  }
  size_t bytes() const { return ((rows - 1) * row_stride + (columns - 1) * column_stride + 1) * tensor->itemsize(); }
  // Its host address, for use inside a kernel.
  template <class T>
  T* address() const {
    return host_alias(static_cast<T*>(tensor->data_ptr()), bytes());
  }
};

// A factor as BLAS takes it: row-major ('N') or column-major ('T').
template <class T>
struct Factor {
  const T* data;
  char transposed = 'N';
  int leading = 0;
};

template <class T>
std::optional<Factor<T>> factor(Matrix matrix) {
  if (const auto leading = matrix.leading()) return Factor<T>{matrix.address<const T>(), 'N', *leading};
  matrix.transpose();
  if (const auto leading = matrix.leading()) return Factor<T>{matrix.address<const T>(), 'T', *leading};
  return std::nullopt;
}
// LITERALINCLUDE END: product-matrix

// LITERALINCLUDE START: product-closure
// out = alpha * a b + beta * added, all row-major. BLAS is column-major, so it sees the transpose of each; and the
// transpose of a b is the product of the transposes of b and a.
template <class T>
struct ProductCall {
  BlasProduct<T>* multiply;
  Factor<T> a;
  Factor<T> b;
  T* out;
  int leading_out;
  int rows;
  int columns;
  int inner;
  T alpha;
  T beta{0};
  const T* added = nullptr;  // copied to the output first, since BLAS adds beta times the output
  int64_t added_row_stride = 0;
  int64_t added_column_stride = 0;

  void operator()() const {
    for (int64_t i = 0; added != nullptr && i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        out[i * leading_out + j] = added[i * added_row_stride + j * added_column_stride];
      }
    }
    multiply(&b.transposed, &a.transposed, &columns, &rows, &inner, &alpha, b.data, &b.leading, a.data, &a.leading,
             &beta, out, &leading_out);
  }
};
// LITERALINCLUDE END: product-closure

// LITERALINCLUDE START: product-launch
template <class T>
bool launch_product(BlasProduct<T>* multiply, const char* name, const at::Tensor& out, const at::Tensor& a,
                    const at::Tensor& b, const at::Scalar& alpha, const Addend& addend) {
  Matrix to(out);
  Matrix left(a);
  Matrix right(b);
  const bool by_columns = !to.leading();
  if (by_columns) {  // then its transpose may be row-major, and is the product of the others' transposes
    for (Matrix* matrix : {&to, &left, &right}) matrix->transpose();
    std::swap(left, right);
  }
  const auto leading = to.leading();
  const auto first = factor<T>(left);
  const auto second = factor<T>(right);
  if (multiply == nullptr || !leading || !first || !second || std::max({to.rows, to.columns, left.columns}) > INT_MAX) {
    return false;
  }
  ProductCall<T> product{.multiply = multiply,
                         .a = *first,
                         .b = *second,
                         .out = to.address<T>(),
                         .leading_out = *leading,
                         .rows = static_cast<int>(to.rows),
                         .columns = static_cast<int>(to.columns),
                         .inner = static_cast<int>(left.columns),
                         .alpha = alpha.to<T>()};
  if (addend.tensor.defined()) {
    product.beta = addend.beta.to<T>();
    if (product.beta != T(0) && !is_same(out, addend.tensor)) {
      const Matrix added(addend.tensor);
      product.added = added.address<const T>();
      product.added_row_stride = by_columns ? added.column_stride : added.row_stride;
      product.added_column_stride = by_columns ? added.row_stride : added.column_stride;
    }
  }
  launch(name, out.device().index(), left.bytes() + right.bytes() + to.bytes(), std::move(product));
  return true;
}
// LITERALINCLUDE END: product-launch

// LITERALINCLUDE START: product-dtypes
bool is_plain(const at::Tensor& tensor, const at::Tensor& out) {
  return tensor.scalar_type() == out.scalar_type() && tensor.device() == out.device() && tensor.dim() <= 2 &&
         tensor.numel() > 0 && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

bool is_read_late(const at::Tensor& out, const at::Tensor& argument) {
  if (out.numel() == 0 || argument.numel() == 0 || !out.is_alias_of(argument)) {
    return false;
  }
  const auto first = [](const at::Tensor& tensor) { return static_cast<const char*>(tensor.const_data_ptr()); };
  const auto last = [&first](const at::Tensor& tensor) {
    return first(tensor) + at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
  };
  return first(out) < last(argument) && first(argument) < last(out);
}

bool launch_blas_product(const char* name, const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                         const at::Scalar& alpha, const Addend& addend) {
  if (!is_plain(out, out) || !is_plain(a, out) || !is_plain(b, out) ||
      (addend.tensor.defined() && !is_plain(addend.tensor, out))) {
    return false;
  }
  switch (out.scalar_type()) {
    case at::kFloat:
      return launch_product(sgemm_, name, out, a, b, alpha, addend);
    case at::kDouble:
      return launch_product(dgemm_, name, out, a, b, alpha, addend);
    case at::kComplexFloat:
      return launch_product(cgemm_, name, out, a, b, alpha, addend);
    case at::kComplexDouble:
      return launch_product(zgemm_, name, out, a, b, alpha, addend);
    default:
      return false;
  }
}
// LITERALINCLUDE END: product-dtypes

}  // namespace openreg
