// Elementwise kernels over the operands of a TensorIterator.
//
// A TensorIterator has done the work that every elementwise operator shares: it checked and broadcast the shapes,
// allocated the output, and merged dimensions. What is left are a shape and, for each operand, an address and strides
// in bytes. For kernel files only (see launch.h).
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/util/DimVector.h>

#include "aten/launch.h"

namespace openreg {

// LITERALINCLUDE START: launch-unary-loop
// out[i] = function(in[i]) for every index i, without a tensor: the form in which the work travels to the device.
template <class Out, class In, class Function>
struct UnaryLoop {
  at::DimVector shape;
  at::DimVector out_strides;  // bytes
  at::DimVector in_strides;   // bytes
  char* out;
  const char* in;
  Function function;

  void operator()() const { run(static_cast<int64_t>(shape.size()) - 1, out, in); }

 private:
  // The first dimension is the fastest one in a TensorIterator, so the recursion starts at the last.
  void run(int64_t dim, char* out_at, const char* in_at) const {
    if (dim < 0) {
      *reinterpret_cast<Out*>(out_at) = function(*reinterpret_cast<const In*>(in_at));
      return;
    }
    if (dim == 0 && out_strides[0] == sizeof(Out) && in_strides[0] == sizeof(In)) {
      run_contiguous(reinterpret_cast<Out*>(out_at), reinterpret_cast<const In*>(in_at));
      return;
    }
    for (int64_t i = 0; i < shape[dim]; ++i) {
      run(dim - 1, out_at + i * out_strides[dim], in_at + i * in_strides[dim]);
    }
  }

  // Separate, so that the compiler can vectorise it.
  void run_contiguous(Out* out_at, const In* in_at) const {
    for (int64_t i = 0; i < shape[0]; ++i) {
      out_at[i] = function(in_at[i]);
    }
  }
};
// LITERALINCLUDE END: launch-unary-loop

// LITERALINCLUDE START: launch-operand-bytes
// The bytes from the first to the last element of an operand.
inline size_t operand_bytes(const at::TensorIteratorBase& iter, int operand) {
  size_t bytes = iter.element_size(operand);
  for (int dim = 0; dim < iter.ndim(); ++dim) {
    bytes += (iter.shape()[dim] - 1) * iter.strides(operand)[dim];
  }
  return bytes;
}
// LITERALINCLUDE END: launch-operand-bytes

// LITERALINCLUDE START: elementwise-launch-unary
// Queues function(element) over the operands of a unary iterator: operand 0 is the output, operand 1 the input.
template <class Out, class In, class Function>
void launch_unary(const char* name, const at::TensorIteratorBase& iter, Function function) {
  if (iter.numel() == 0) {
    return;
  }
  const size_t out_bytes = operand_bytes(iter, 0);
  const size_t in_bytes = operand_bytes(iter, 1);
  const UnaryLoop<Out, In, Function> loop{at::DimVector(iter.shape()),
                                          at::DimVector(iter.strides(0)),
                                          at::DimVector(iter.strides(1)),
                                          host_alias(static_cast<char*>(iter.data_ptr(0)), out_bytes),
                                          host_alias(static_cast<const char*>(iter.data_ptr(1)), in_bytes),
                                          std::move(function)};
  launch(name, iter.device(0).index(), out_bytes + in_bytes, loop);
}
// LITERALINCLUDE END: elementwise-launch-unary

}  // namespace openreg
