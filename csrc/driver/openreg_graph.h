// Graphs: work that is recorded once from streams, and then launched again and again with one call. Optional, like
// openreg_extended.h.
//
// While a stream is captured, what is queued on it is recorded and does not run: kernels, copies, fills, host
// functions, event records and waits. A stream that waits for an event recorded in the capture joins it; the stream
// that began the capture must wait for it in turn before the capture ends.
//
// These calls return orErrorStreamCaptureUnsupported, and invalidate the capture:
//   - on a captured stream: orStreamSynchronize, orStreamQuery, orStreamDestroy, a copy whose host side is pageable,
//     orMallocAsync, orFreeAsync, orGraphLaunch, and events that several processes share
//   - calls that wait for a device with a captured stream (orDeviceSynchronize, orFree, orMemcpy, orMemset,
//     orModuleUnload), depending on the mode of the capture
// orMalloc is allowed. An event that was recorded in a capture stands for no work that runs: orEventSynchronize,
// orEventQuery and orEventElapsedTime return orErrorCapturedEvent until it is recorded again. A captured stream that
// waits for an event of a stream that is not captured gets orErrorStreamCaptureIsolation.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

// LITERALINCLUDE START: driver-graph-capture
typedef struct orGraph* orGraph_t;
typedef struct orGraphExec* orGraphExec_t;

// Whose calls that wait for a whole device invalidate the capture.
typedef enum orStreamCaptureMode {
  orStreamCaptureModeGlobal = 0,  // those of any thread
  orStreamCaptureModeThreadLocal = 1,  // those of the thread that began the capture
  orStreamCaptureModeRelaxed = 2,  // nobody's: they wait for the work that was not captured
} orStreamCaptureMode;

typedef enum orStreamCaptureStatus {
  orStreamCaptureStatusNone = 0,
  orStreamCaptureStatusActive = 1,
  orStreamCaptureStatusInvalidated = 2,  // a call was refused; orStreamEndCapture will report it
} orStreamCaptureStatus;

// Begins to capture the stream. The default stream cannot be captured: every thread's work would be recorded.
OR_OPTIONAL orError_t orStreamBeginCapture(orStream_t stream, orStreamCaptureMode mode);
// Ends the capture that the stream began, on the thread that began it unless the mode is Relaxed. Without a valid
// capture the graph is null: orErrorStreamCaptureInvalidated, with the reason, or orErrorStreamCaptureUnjoined.
// If the argument is null, any thread may call it: what was recorded is discarded, valid or not, and no graph is made.
OR_OPTIONAL orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph);
// The status, and a number that no other capture of the process has; 0 for a stream that is not captured. Any thread
// may call it at any time, also a kernel.
OR_OPTIONAL orError_t orStreamGetCaptureInfo(orStream_t stream, orStreamCaptureStatus* status, uint64_t* id);
// LITERALINCLUDE END: driver-graph-capture

// LITERALINCLUDE START: driver-graph-launch
// Prepares a graph to be launched. The two have separate lives: either may be destroyed first.
OR_OPTIONAL orError_t orGraphInstantiate(orGraphExec_t* exec, orGraph_t graph);
// Queues all work of the graph on a stream of the device that it was captured on: after the work queued there before,
// and before what is queued later. The addresses are those of the capture; the memory must still be allocated. Launches
// of one executable graph never run at the same time, whatever their streams.
OR_OPTIONAL orError_t orGraphLaunch(orGraphExec_t exec, orStream_t stream);
OR_OPTIONAL orError_t orGraphDestroy(orGraph_t graph);
// Does not wait: what was launched finishes.
OR_OPTIONAL orError_t orGraphExecDestroy(orGraphExec_t exec);
// Writes the graph to a file in the DOT language: the recorded work, and what each part runs after.
OR_OPTIONAL orError_t orGraphDebugDotPrint(orGraph_t graph, const char* path);
// LITERALINCLUDE END: driver-graph-launch

#ifdef __cplusplus
}
#endif
