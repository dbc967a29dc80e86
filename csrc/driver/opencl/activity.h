// What a profiler is told of the commands that have run.
#pragma once

#include "stream.h"

namespace openreg::driver::opencl {

// Notes whether the work is recorded, and the calling thread's correlation.
void mark_recorded(Work& work) noexcept;
// Reports work that has ended, if anybody still records.
void report_activity(const Work& work, const Stream& stream);

}  // namespace openreg::driver::opencl
