// Reports the commands that have run to a profiler.
#pragma once

#include "stream.h"

namespace openreg::driver::opencl {

// Marks whether the work is recorded, with the calling thread's correlation number.
void mark_recorded(Work& work) noexcept;
// Reports work that has ended, if recording is still on.
void report_activity(const Work& work, const Stream& stream);

}  // namespace openreg::driver::opencl
