// Named ranges of a thread, like NVTX for CUDA: they cost little, and appear in a profile that is being recorded.
#pragma once

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: profiler-ranges
// Opens a range of the calling thread, nested in those that are open. A profile includes it if it runs both when the
// range opens and when it closes. The name is copied.
OPENREG_EXPORT void push_range(const char* name);
// Closes the innermost range of the calling thread.
// Throws: when none is open.
OPENREG_EXPORT void pop_range();
// Marks a point in time.
OPENREG_EXPORT void mark(const char* name);
// LITERALINCLUDE END: profiler-ranges

}  // namespace openreg
