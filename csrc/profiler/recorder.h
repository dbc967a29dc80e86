// The records of a profile: the driver's, of what its devices did, and the backend's, of the calls that caused it. One
// recording at a time. Independent of the profiler that shows them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_set>

#include "driver/openreg_activity.h"
#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: profiler-records
// A kernel, copy or fill that has run.
struct DeviceRecord {
  orActivityKind kind;
  orMemcpyKind copy_kind;
  int device;
  orStream_t stream;
  uint32_t operation;  // that queued it: see operations.h; 0: none that the profiler knows
  uint32_t call;       // the HostRecord of the call that queued it; 0: none
  int64_t begin;       // nanoseconds since 1970, as all times here
  int64_t end;
  size_t bytes;
  const char* name;  // of a kernel
};

// A driver call or a range on a thread of the host.
struct HostRecord {
  enum class Kind { kCall, kRange };
  Kind kind;
  const char* name;
  int32_t thread;
  uint32_t operation;  // the enclosing one
  uint32_t range;      // the innermost of the user's ranges
  uint32_t call;       // for a driver call, its own number
  int64_t begin;
  int64_t end;
};

struct Recording {
  std::deque<DeviceRecord> device;
  std::deque<HostRecord> host;
  std::unordered_set<std::string> names;  // that the records point to
  uint64_t dropped = 0;                   // records that there was no room for
};
// LITERALINCLUDE END: profiler-records

// LITERALINCLUDE START: profiler-interface
// Whether the driver records at all: the functions of openreg_activity.h are optional.
[[nodiscard]] OPENREG_EXPORT bool can_record() noexcept;

// Starts recording, up to `most_records` records.
// Throws: when a recording is already active, through the driver's functions or these.
void start_recording(size_t most_records);

// Waits for all devices. What was queued since the start has then been recorded.
Recording stop_recording();

[[nodiscard]] bool is_recording() noexcept;
// Adds a range of the calling thread that ends now, if a recording is active. The name is copied.
void record_range(const std::string& name, int64_t begin) noexcept;
// LITERALINCLUDE END: profiler-interface

}  // namespace openreg
