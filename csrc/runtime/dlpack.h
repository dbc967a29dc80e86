// What PyTorch does not check when it imports a tensor through DLPack.
#pragma once

#include <ATen/dlpack.h>
#include <c10/core/Stream.h>

#include "runtime/export.h"

namespace openreg {

// Throws: BufferError unless all elements are in one allocation of the device that the tensor names.
OPENREG_EXPORT void check_dlpack_memory(const DLTensor& tensor);

// Waits for the work of a stream before a producer's deleter runs. The driver waits, not the backend: Ctrl-C must not
// end this wait, and the mistake of a kernel is for the program's own next wait to raise. A stream that is being
// captured has nothing to wait for.
OPENREG_EXPORT void wait_for_readers(const c10::Stream& stream);

}  // namespace openreg
