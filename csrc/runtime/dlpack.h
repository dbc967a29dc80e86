// What PyTorch does not check when it imports a tensor through DLPack.
#pragma once

#include <ATen/dlpack.h>

#include "runtime/export.h"

namespace openreg {

// Throws: BufferError unless all elements are in one allocation of the device that the tensor names.
OPENREG_EXPORT void check_dlpack_memory(const DLTensor& tensor);

}  // namespace openreg
