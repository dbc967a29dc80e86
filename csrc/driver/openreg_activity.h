// Records what the device did, and when: the basis of a profiler. A driver may omit these functions.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

// LITERALINCLUDE START: driver-activity
typedef enum orActivityKind {
  orActivityKernel = 0,
  orActivityMemcpy = 1,
  orActivityMemset = 2,
} orActivityKind;

typedef struct orActivity {
  orActivityKind kind;
  int device;
  orStream_t stream;
  uint64_t correlation;       // set by the thread that queued the work: see orActivitySetCorrelation
  int64_t begin_nanoseconds;  // when it began on the device, since 1970 (CLOCK_REALTIME)
  int64_t end_nanoseconds;
  size_t bytes;            // moved or filled; 0 for a kernel
  orMemcpyKind copy_kind;  // for a copy: where its two pointers lie
  const char* name;        // for a kernel, valid during the callback; otherwise null
} orActivity;

// Starts recording: calls function(activity, user) for each piece of work that has run, on any thread and in any order
// between streams. The function must not call the driver. Starting twice is orErrorInvalidValue. Work queued earlier
// need not be recorded.
OR_OPTIONAL orError_t orActivityStart(void (*function)(const orActivity* activity, void* user), void* user);
// Waits for all work on all devices; when it returns, every activity has been delivered, and no more follow.
OR_OPTIONAL orError_t orActivityStop(void);
// Sets the number that work queued by the calling thread carries from now on; 0, the initial value, means none. A
// profiler joins operators and kernels by it. It needs no device, and costs nothing while nothing is recorded.
OR_OPTIONAL orError_t orActivitySetCorrelation(uint64_t correlation);
// LITERALINCLUDE END: driver-activity

#ifdef __cplusplus
}
#endif
