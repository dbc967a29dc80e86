// Which operators have a kernel in the device's language, and for which dtypes. Kernels declare this when they are
// loaded; torch.openreg.kernel_source queries it.
#pragma once

#include <ATen/core/TensorBody.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: kernel-source-contract
// Records the dtypes of a native kernel. The name is that of one overload: "aten::mm.out".
// Requires: called while libraries are loaded, on one thread.
OPENREG_EXPORT void declare_native(const std::string& name, std::span<const at::ScalarType> dtypes);

// The operators with a native kernel and their dtypes.
OPENREG_EXPORT const std::map<std::string, std::vector<at::ScalarType>>& native_kernels();
// LITERALINCLUDE END: kernel-source-contract

}  // namespace openreg
