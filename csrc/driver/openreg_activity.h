// What the device did, and when: what a profiler stands on. A driver need not have these functions.
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
  uint64_t correlation;       // of the thread that queued the work: see orActivitySetCorrelation
  int64_t begin_nanoseconds;  // on the device, since 1970 (CLOCK_REALTIME)
  int64_t end_nanoseconds;
  size_t bytes;            // moved or filled; 0 for a kernel
  orMemcpyKind copy_kind;  // of a copy: where its two pointers lie
  const char* name;        // of a kernel, valid during the callback; null otherwise
} orActivity;

// Starts to record, and calls function(activity, user) for each piece of work that has run, on any thread and in any
// order between streams. It must not call the driver. Recording twice is orErrorInvalidValue. Work that was queued
// earlier need not be recorded.
OR_OPTIONAL orError_t orActivityStart(void (*function)(const orActivity* activity, void* user), void* user);
// Waits for all work of all devices; when it returns every activity was handed over, and none comes any more.
OR_OPTIONAL orError_t orActivityStop(void);
// The number that work queued from now on by the calling thread carries; 0, at first, says none. A profiler joins
// operators and kernels by it. It needs no device, and costs nothing while nobody records.
OR_OPTIONAL orError_t orActivitySetCorrelation(uint64_t correlation);
// LITERALINCLUDE END: driver-activity

#ifdef __cplusplus
}
#endif
