// Optional features beyond openreg.h that many devices offer and a backend may use if present: wider fills and copies,
// registered host memory, stream-ordered allocation, host functions on streams, peer access.
//
// A driver may omit any of these functions: its address is then null. A function that the driver has but this device
// cannot support returns orErrorNotSupported. conformance/driver has a group of checks for each part.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

// LITERALINCLUDE START: driver-extended-memory
// Repeats `pattern`, of 1, 2, 4, 8 or 16 bytes, `count` times; the pointer must be a multiple of its size, otherwise
// orErrorMisalignedPointer. One call fills a tensor with any value of any dtype: orMemsetAsync handles bytes only.
OR_OPTIONAL orError_t orFillAsync(void* pointer, const void* pattern, size_t pattern_bytes, size_t count,
                                  orStream_t stream);
// Copies `height` rows of `width` bytes that start `dst_pitch` and `src_pitch` bytes apart: a block of a matrix. A
// pitch smaller than the width is orErrorInvalidValue. Otherwise it behaves like orMemcpyAsync.
OR_OPTIONAL orError_t orMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                                      size_t height, orMemcpyKind kind, orStream_t stream);

// Pins host memory that the driver did not allocate, and unpins it; the bytes stay where they are. Memory of a library,
// or memory shared between processes, can then take part in asynchronous copies. Memory that is already partly pinned
// is orErrorInvalidValue; unregistering waits like orFreeHost.
OR_OPTIONAL orError_t orHostRegister(void* pointer, size_t bytes);
OR_OPTIONAL orError_t orHostUnregister(void* pointer);

// Stream-ordered allocation: the memory is available to work queued later on the stream, and freeing it takes effect
// when the stream has finished the work queued before. Neither waits for the device. Work of other streams is not
// waited for: make the stream wait for their events first.
OR_OPTIONAL orError_t orMallocAsync(void** pointer, size_t bytes, orStream_t stream);
OR_OPTIONAL orError_t orFreeAsync(void* pointer, orStream_t stream);
// LITERALINCLUDE END: driver-extended-memory

// LITERALINCLUDE START: driver-extended-streams
// Calls function(user) on a thread of the driver when the stream has finished the work queued before; later work on the
// stream waits until it returns. It must not call the driver, nor exit(). A driver may call the functions of all
// streams on one thread, so a function must not wait for another one. After a device failure it is not called.
OR_OPTIONAL orError_t orLaunchHostFunction(orStream_t stream, void (*function)(void* user), void* user);
// LITERALINCLUDE END: driver-extended-streams

// LITERALINCLUDE START: driver-extended-peers
// Whether kernels on `device` can access the memory of `peer` by address; 1 for the device itself. Copies between
// devices work either way.
OR_OPTIONAL orError_t orDeviceCanAccessPeer(int* can_access, int device, int peer);
// Enables and disables this access for kernels on the current device. A pair without access is orErrorNotSupported;
// repeating either call is not an error.
OR_OPTIONAL orError_t orDeviceEnablePeerAccess(int peer);
OR_OPTIONAL orError_t orDeviceDisablePeerAccess(int peer);
// LITERALINCLUDE END: driver-extended-peers

#ifdef __cplusplus
}
#endif
