// What only a simulated device can offer: host code that acts as a kernel, and a host view of device memory.
//
// A vendor replaces every use of this header by kernels of their own device. It is therefore included by kernel
// files alone, and the build option HOST_KERNELS=OFF builds driver and backend without them.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

// LITERALINCLUDE START: driver-host-kernels
// A host function that runs as a kernel. It runs on the stream's thread, or on the one that launches it.
//
// Neither run, destroy nor keep may throw, wait for work of the device, or take a lock that somebody holds who waits
// for the device: they would wait for themselves. Of the driver's functions they may call orGetHostAlias,
// orPointerGetAttributes and those that describe devices and streams; the others return orErrorNotSupported.
typedef struct orHostKernel {
  const char* name;  // for error messages; must outlive the driver: a string literal
  // Returns 0, or another value after writing what went wrong, zero-terminated, into message.
  int (*run)(void* closure, char* message, size_t message_bytes);
  // Called once for a closure that the driver owns: after run, or instead of it when the work is dropped. Null when
  // there is nothing to do.
  void (*destroy)(void* closure);
  void* closure;
  size_t work_bytes;  // bytes read and written, for the decision of the launch mode auto
  // Null: from the launch on, whether it succeeds or not, the driver owns the closure.
  // Otherwise the closure stays the caller's, and may lie on the stack: a kernel that runs before the launch returns
  // needs no more. For one that is queued, keep returns a closure that the driver owns, on the thread that launches.
  // It returns null when the host has no memory.
  void* (*keep)(void* closure);
} orHostKernel;

OR_CALL orError_t orLaunchHostKernel(const orHostKernel* kernel, orStream_t stream);

// The host address of the same bytes. Only a kernel that runs on a stream may touch them; the call itself takes no
// lock and checks that the bytes lie in a device's address range, not that they are allocated.
OR_CALL orError_t orGetHostAlias(void** alias, const void* device_pointer, size_t bytes);
// LITERALINCLUDE END: driver-host-kernels

#ifdef __cplusplus
}
#endif
