// What this backend knows of a tensor beyond its sizes, strides and dtype: one mark, kept in the slot that PyTorch
// has in every tensor for its backend. Set from Python, read by the CPU fallback, saved by serialization.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace openreg {

// Whether the tensor, or the tensor that it is a view of, may not be copied to the CPU by the fallback.
// Limits: a view that was made of an inference tensor does not know its base.
OPENREG_EXPORT bool forbids_fallback(const at::Tensor& tensor);

// Marks this tensor, or takes the mark away. Tensors that share its memory but are no views of it stay as they are.
// Thread: not while another thread uses the tensor, like every change of a tensor.
// Throws: for a tensor of another device.
OPENREG_EXPORT void set_forbids_fallback(const at::Tensor& tensor, bool forbid);

}  // namespace openreg
