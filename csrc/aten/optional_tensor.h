// Optional tensor arguments, as the norms take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace openreg {

// LITERALINCLUDE START: norms-optional
using OptionalTensor = std::optional<at::Tensor>;

// The tensor, or an undefined one.
inline at::Tensor value(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }
inline at::Tensor value(at::OptionalTensorRef tensor) { return tensor.has_value() ? *tensor : at::Tensor(); }

// The tensor without gaps, as the library requires.
inline at::Tensor dense(const at::Tensor& tensor) { return tensor.defined() ? tensor.contiguous() : tensor; }
// LITERALINCLUDE END: norms-optional

}  // namespace openreg
