// What a profile is made of: the driver's records of what its devices did, and the backend's records of the calls that
// made them do it. One recording at a time. It knows nothing of the profiler that shows them.
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
  uint32_t operation;  // that queued it: see operations.h. 0: none that the profiler knows
  uint32_t call;       // the HostRecord of the call that queued it; 0: there is none
  int64_t begin;       // nanoseconds since 1970, as all times here
  int64_t end;
  size_t bytes;
  const char* name;  // of a kernel
};

// Something that took place on a thread of the host.
struct HostRecord {
  enum class Kind { kCall, kRange };
  Kind kind;
  const char* name;
  int32_t thread;
  uint32_t operation;  // inside which it took place
  uint32_t range;      // of the user's ranges, the innermost
  uint32_t call;       // a number of its own, for a call of the driver
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
// Whether the driver records at all: it need not have the functions of openreg_activity.h.
[[nodiscard]] OPENREG_EXPORT bool can_record() noexcept;

// Starts to record, up to so many records.
// Throws: when somebody records already, with the driver's functions or these.
void start_recording(size_t most_records);

// Waits for all devices. What was queued since the start has then been recorded.
Recording stop_recording();

[[nodiscard]] bool is_recording() noexcept;
// Adds a range of the calling thread that ends now, if it is being recorded. The name is copied.
void record_range(const std::string& name, int64_t begin) noexcept;
// LITERALINCLUDE END: profiler-interface

}  // namespace openreg
