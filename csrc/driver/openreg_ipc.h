// Device memory and events that several processes on one machine share. Optional, like openreg_extended.h.
//
// A handle is plain data: its bytes may be sent to the other process through a pipe, a socket or a file. It is valid
// until the process that made it frees the memory, destroys the event, or ends. After that, opening it is
// orErrorInvalidHandle; what is already open stays usable until it is closed.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

// LITERALINCLUDE START: driver-ipc-memory
typedef struct orIpcMemoryHandle {
  unsigned char bytes[64];
} orIpcMemoryHandle;

// Allocates memory that other processes can open, on the current device; otherwise like orMalloc. A driver that can
// share any allocation may implement it as orMalloc. Free it with orFree or orFreeAsync.
OR_OPTIONAL orError_t orMallocShareable(void** pointer, size_t bytes);
// The handle of shareable memory; the pointer must be its start. Other memory is orErrorNotSupported.
OR_OPTIONAL orError_t orIpcGetMemoryHandle(orIpcMemoryHandle* handle, void* pointer);
// Maps the memory into this process, at an address of its own. The current device must be the one that holds the
// memory, otherwise orErrorInvalidDevice. Copies and kernels use the address like any other of the device. Processes
// order their accesses by events, or by synchronizing.
OR_OPTIONAL orError_t orIpcOpenMemoryHandle(void** pointer, const orIpcMemoryHandle* handle);
// Waits like orFree, then removes the mapping. orFree rejects such memory.
OR_OPTIONAL orError_t orIpcCloseMemory(void* pointer);
// LITERALINCLUDE END: driver-ipc-memory

// LITERALINCLUDE START: driver-ipc-events
// A flag for orEventCreateWithFlags, only together with orEventDisableTiming. A driver without this header rejects it.
enum { orEventInterprocess = 2 };

typedef struct orIpcEventHandle {
  unsigned char bytes[64];
} orIpcEventHandle;

OR_OPTIONAL orError_t orIpcGetEventHandle(orIpcEventHandle* handle, orEvent_t event);
// Opens the event for the current device, which must be the event's own. Either process may record it, and wait for
// the last record, whichever made it. Close it with orEventDestroy. If a process ends before a record of it has passed,
// or its device drops the work before the record, because it fails or is reset, waiting for that record fails: on the
// host with orErrorLaunchFailure, on a stream as a failed kernel does.
OR_OPTIONAL orError_t orIpcOpenEventHandle(orEvent_t* event, const orIpcEventHandle* handle);
// LITERALINCLUDE END: driver-ipc-events

#ifdef __cplusplus
}
#endif
