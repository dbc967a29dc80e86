// Records what ran, and when.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "openreg_activity.h"

namespace openreg::driver {

// LITERALINCLUDE START: activity-contract
// How a unit of work describes itself, by its member `activity()`, if it can be recorded.
struct Activity {
  orActivityKind kind;
  size_t bytes;
  orMemcpyKind copy_kind;
  const char* name;
};

extern std::atomic<bool> g_recording;

// Whether work submitted now is recorded. While nothing records, a submission pays only for this check.
[[nodiscard]] inline bool recording() noexcept { return g_recording.load(std::memory_order_acquire); }
// The calling thread's number, from orActivitySetCorrelation.
[[nodiscard]] uint64_t correlation() noexcept;
[[nodiscard]] int64_t activity_clock() noexcept;
// Calls the function passed to orActivityStart. Requires: the work was submitted while recording() was true.
void report_activity(const orActivity& activity);
// LITERALINCLUDE END: activity-contract

}  // namespace openreg::driver
