// Records what ran, and when.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "openreg_activity.h"

namespace openreg::driver {

// LITERALINCLUDE START: activity-contract
// What a unit of work knows of itself: its member `activity()`, if it is one to be recorded.
struct Activity {
  orActivityKind kind;
  size_t bytes;
  orMemcpyKind copy_kind;
  const char* name;
};

extern std::atomic<bool> g_recording;

// Whether work that is submitted now is to be recorded: all that a submission costs while nobody records.
[[nodiscard]] inline bool recording() noexcept { return g_recording.load(std::memory_order_acquire); }
// The calling thread's, from orActivitySetCorrelation.
[[nodiscard]] uint64_t correlation() noexcept;
[[nodiscard]] int64_t activity_clock() noexcept;
// Calls the function that orActivityStart was given. Requires: the work was submitted while recording() was true.
void report_activity(const orActivity& activity);
// LITERALINCLUDE END: activity-contract

}  // namespace openreg::driver
