// Rows of a trace, which shows a device as a process and a stream as one of its threads.
#pragma once

#include <cstdint>
#include <string>

#include "driver/openreg.h"

namespace openreg {

// LITERALINCLUDE START: profiler-rows
// A small number for the stream, fixed for the life of the process: 0 for the default stream of a device, and then in
// the order of first use. A trace has 32 bits for it, and the driver's handle has 64.
// Throws: std::bad_alloc.
[[nodiscard]] int32_t row_of(int device, orStream_t stream);

// "stream 1 (stream_id 268435985)", with the number that torch.Stream shows.
[[nodiscard]] std::string name_of_row(int device, orStream_t stream);
// LITERALINCLUDE END: profiler-rows

}  // namespace openreg
