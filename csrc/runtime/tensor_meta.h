// The backend's metadata of a tensor, beyond sizes, strides and dtype: one mark, kept in the slot that every PyTorch
// tensor has for its backend. Set from Python, read by the CPU fallback, saved by serialization.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/export.h"

namespace openreg {

// Whether the fallback must not copy the tensor, or the tensor that it is a view of, to the CPU.
// Limits: a view of an inference tensor does not know its base. A conjugate or negative view is copied on the device,
// without the mark, before an operator gets it: mark what resolve_conj() or resolve_neg() returns.
OPENREG_EXPORT bool forbids_fallback(const at::Tensor& tensor);

// Sets or clears the mark of this tensor. Tensors that share its memory but are not views of it are unaffected.
// Thread: not while another thread uses the tensor, as for any mutation of a tensor.
// Throws: for a tensor that is not on a device of openreg.
OPENREG_EXPORT void set_forbids_fallback(const at::Tensor& tensor, bool forbid);

}  // namespace openreg
