// Features that only a simulated device can offer: host code that runs as a kernel, and a host view of device memory.
//
// A vendor replaces every use of this header with kernels of their own device. Therefore only kernel files include it,
// and the build option HOST_KERNELS=OFF builds the driver and the backend without them.
#pragma once

#include "openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

// LITERALINCLUDE START: driver-host-kernels
// A host function that runs as a kernel. It runs on the stream's thread or on the launching thread.
//
// run, destroy and keep must not throw, wait for work on the device, or take a lock whose holder waits for the device:
// they would deadlock. They may call only orGetHostAlias, orPointerGetAttributes and the functions that describe
// devices and streams; the others return orErrorNotSupported.
typedef struct orHostKernel {
  const char* name;  // for error messages; must outlive the driver, as a string literal does
  // Called once, or for each launch of the graph that contains the kernel: it leaves the closure as it was.
  // Returns 0 on success; otherwise a nonzero value, after writing a null-terminated error text into message.
  int (*run)(void* closure, char* message, size_t message_bytes);
  // Called once for a closure that the driver owns: after run, or instead of it if the work is dropped; for a kernel
  // that was captured into a graph (openreg_graph.h), when the graph is gone. Null if there is nothing to do.
  void (*destroy)(void* closure);
  void* closure;
  size_t work_bytes;  // bytes read and written; the launch mode auto decides by it
  // Null: from the launch on, whether it succeeds or not, the driver owns the closure.
  // Otherwise the caller owns the closure, which may be on the stack: enough for a kernel that runs before the launch
  // returns. For a queued kernel, keep returns a closure that the driver owns; it runs on the launching thread, and
  // returns null if the host is out of memory.
  void* (*keep)(void* closure);
} orHostKernel;

OR_CALL orError_t orLaunchHostKernel(const orHostKernel* kernel, orStream_t stream);

// The host address of the same bytes. Only a kernel that runs on a stream may access them; the call itself takes no
// lock and checks that the bytes are in a device's address range, not that they are allocated.
OR_CALL orError_t orGetHostAlias(void** alias, const void* device_pointer, size_t bytes);
// LITERALINCLUDE END: driver-host-kernels

#ifdef __cplusplus
}
#endif
