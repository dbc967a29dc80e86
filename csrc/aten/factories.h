// New device tensors for kernels, without the dispatcher, which calls to empty and empty_strided go through.
#pragma once

#include <ATen/core/TensorBody.h>

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: factories-for-kernels
// Requires: the device of the options is the current one. Without a memory format the tensor is contiguous.
OPENREG_EXPORT at::Tensor new_tensor(at::IntArrayRef sizes, const at::TensorOptions& options);
OPENREG_EXPORT at::Tensor new_strided_tensor(at::IntArrayRef sizes, at::IntArrayRef strides,
                                             const at::TensorOptions& options);
// LITERALINCLUDE END: factories-for-kernels

}  // namespace openreg
