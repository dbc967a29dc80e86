// A kernel that only takes time, for tests and examples that need a busy stream. torch.openreg._sleep queues it.
#pragma once

#include <cstdint>

#include "runtime/export.h"

namespace openreg {

// Keeps the current stream of the current device busy for that many nanoseconds, and returns at once.
// Throws: when the number is negative.
OPENREG_EXPORT void sleep_on_stream(int64_t nanoseconds);

}  // namespace openreg
