// What many devices offer beyond openreg.h, and a backend uses where it is there: wider fills and copies, host memory
// of somebody else, host functions on streams, several devices that see each other.
//
// A driver may leave out each function: its address is null then. One that it has, but cannot do on this device,
// returns orErrorNotSupported. conformance/driver has a group of checks for each part.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

// LITERALINCLUDE START: driver-extended-memory
// Repeats `pattern`, of 1, 2, 4, 8 or 16 bytes, over `count` places; the pointer is a multiple of its size, otherwise
// orErrorMisalignedPointer. One call of a filled tensor, of any value and dtype: orMemsetAsync knows bytes only.
OR_OPTIONAL orError_t orFillAsync(void* pointer, const void* pattern, size_t pattern_bytes, size_t count,
                                  orStream_t stream);
// Copies `height` rows of `width` bytes, whose starts lie `dst_pitch` and `src_pitch` bytes apart: a block of a matrix.
// A pitch smaller than the width is orErrorInvalidValue. Everything else is as with orMemcpyAsync.
OR_OPTIONAL orError_t orMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                                      size_t height, orMemcpyKind kind, orStream_t stream);

// Makes host memory that the driver did not allocate pinned, and undoes it; the bytes stay where they are. The memory
// of a library, or memory shared between processes, then takes part in asynchronous copies. Memory of which a part is
// pinned already is orErrorInvalidValue; unregistering waits as orFreeHost does.
OR_OPTIONAL orError_t orHostRegister(void* pointer, size_t bytes);
OR_OPTIONAL orError_t orHostUnregister(void* pointer);

// Memory that belongs to a stream's order: the allocation is there for work queued later on the stream, and freeing it
// takes effect when the stream has done what was queued before. Neither waits for the device.
OR_OPTIONAL orError_t orMallocAsync(void** pointer, size_t bytes, orStream_t stream);
OR_OPTIONAL orError_t orFreeAsync(void* pointer, orStream_t stream);
// LITERALINCLUDE END: driver-extended-memory

// LITERALINCLUDE START: driver-extended-streams
// Calls function(user) on a thread of the driver when the stream has done what was queued before; later work of the
// stream waits until it returns. It must call no function of the driver. After a failure of the device it is not
// called.
OR_OPTIONAL orError_t orLaunchHostFunction(orStream_t stream, void (*function)(void* user), void* user);
// LITERALINCLUDE END: driver-extended-streams

// LITERALINCLUDE START: driver-extended-peers
// Whether kernels of `device` can use the memory of `peer` by its address; of a device itself it is 1. Copies between
// devices work either way.
OR_OPTIONAL orError_t orDeviceCanAccessPeer(int* can_access, int device, int peer);
// Lets kernels of the current device do so, and undoes it. A pair that cannot is orErrorNotSupported; doing either
// twice is no error.
OR_OPTIONAL orError_t orDeviceEnablePeerAccess(int peer);
OR_OPTIONAL orError_t orDeviceDisablePeerAccess(int peer);
// LITERALINCLUDE END: driver-extended-peers

#ifdef __cplusplus
}
#endif
