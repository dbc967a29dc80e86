// Named ranges of a thread, as NVTX is for CUDA: they cost little, and show where somebody records.
#pragma once

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: profiler-ranges
// Opens a range of the calling thread inside those that are open. It is part of a profile that runs when it opens and
// when it closes. The name is copied.
OPENREG_EXPORT void push_range(const char* name);
// Closes the innermost range of the calling thread.
// Throws: when none is open.
OPENREG_EXPORT void pop_range();
// A point in time.
OPENREG_EXPORT void mark(const char* name);
// LITERALINCLUDE END: profiler-ranges

}  // namespace openreg
