// The driver interface of openreg, a simulated accelerator: what every device has.
//
// It is shaped like the CUDA runtime API, so that each function has an obvious counterpart in a vendor's own driver.
// The library behind it knows nothing about PyTorch. Optional features have headers of their own: openreg_modules.h
// (kernels in the device's language), openreg_graph.h (recorded work), openreg_extended.h, openreg_ipc.h and
// openreg_activity.h. openreg_host_kernels.h and
// openreg_faults.h declare what only a simulation can offer.
//
// Contract of every function here
//   Returns: orSuccess, or the error. The compiler warns about a call that ignores the result.
//   Errors:  each thread keeps its last error for orGetLastError, and the full text for orGetErrorDetail.
//   Thread:  safe from any thread. The current device is per-thread state.
//   Fork:    in a child forked after the driver was initialized, every function that needs a device returns
//            orErrorForked at once, without taking a lock. The others keep working: the error functions,
//            orDriverGetVersion, orGetDevice, orDeviceGetStreamPriorityRange and orGetKernel.
//   Exit:    queued work is dropped, and the exit waits for a kernel that a stream's thread runs. A later call, such
//            as one from a static destructor, finds the device idle; if it submits work or waits for dropped work, it
//            returns orErrorDeinitialized. On other threads such a call never returns.
//   Support: a function that a driver cannot support returns orErrorNotSupported, which becomes NotImplementedError.
//            Each function's comment says what PyTorch relies on; conformance/driver tests a library against it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define OR_ENUM enum [[nodiscard]]
#else
#define OR_ENUM enum
#endif

#define OR_API __attribute__((visibility("default")))
#define OR_CALL OR_API __attribute__((warn_unused_result))
// A function that a driver may omit. Its address is then null; callers check it before the call.
#define OR_OPTIONAL OR_CALL __attribute__((weak))

// LITERALINCLUDE START: driver-errors
typedef OR_ENUM orError_t {
  orSuccess = 0,
  orErrorInvalidValue = 1,  // an argument is null or outside its range
  orErrorInvalidDevice = 2,  // no device has this index
  orErrorMemoryAllocation = 3,  // the device, or the host for pinned memory, has too little free memory
  orErrorInvalidPointer = 4,  // the pointer was never handed out by the driver
  orErrorFreedPointer = 5,  // the pointer lies in device memory that is not allocated, or no longer
  orErrorMisalignedPointer = 6,  // the pointer lies inside an allocation where its start is required
  orErrorOutOfRange = 7,  // the bytes named run past the end of the allocation
  orErrorInvalidHandle = 8,  // the stream, event or kernel does not exist, or no longer
  orErrorInvalidMemcpyKind = 9,  // the kind contradicts where the two pointers lie
  orErrorNotReady = 10,  // the queried work has not finished: a status, never stored as the last error
  orErrorLaunchFailure = 11,  // a kernel failed; sticky until orDeviceReset
  orErrorDeviceLost = 12,  // the device is gone; sticky until orDeviceReset
  orErrorForked = 13,  // the driver was initialized before this process was forked
  orErrorInitialization = 14,  // the driver could not start: a bad environment variable, no address space
  orErrorNotSupported = 15,  // the driver does not support the request
  orErrorDeinitialized = 16,  // the process is ending, and the work was dropped
  orErrorCompilation = 17,  // the source of a module does not compile, or the binary is not for this device
  // These five need openreg_graph.h.
  orErrorStreamCaptureUnsupported = 18,  // the call is not allowed while a stream is being captured
  orErrorStreamCaptureInvalidated = 19,  // an earlier error made the capture invalid
  orErrorStreamCaptureUnjoined = 20,  // the capture ended while a stream that joined it had work of its own
  orErrorStreamCaptureIsolation = 21,  // captured work would depend on work that is not captured
  orErrorCapturedEvent = 22,  // the event was recorded in a capture, and stands for no work that runs
} orError_t;
// LITERALINCLUDE END: driver-errors

// The error's name, such as "orErrorInvalidDevice", and a sentence that explains it. Never null, even for unknown
// values. Every exception message begins with both.
OR_API const char* orGetErrorName(orError_t error);
OR_API const char* orGetErrorString(orError_t error);

// The last error of the calling thread. Get clears it and Peek does not; only orDeviceReset clears a sticky error
// (LaunchFailure, DeviceLost). The backend clears it once it has created the exception.
OR_API orError_t orGetLastError(void);
OR_API orError_t orPeekLastError(void);

// Details of the calling thread's last failing call: the function, its arguments, the valid values; for a failed kernel
// its name and message. Valid until the thread's next failing call; "" before the first. They end the exception
// message, and are all that a user learns about the cause.
OR_API const char* orGetErrorDetail(void);

// ---- Devices ----------------------------------------------------------------------------------------------------
//
// OPENREG_DEVICE_COUNT (default 2, 1 to 16) and OPENREG_DEVICE_MEMORY (bytes per device, suffixes K M G allowed;
// default 4G, 32M to 1024G, rounded up to 2M) are read once, by the first call that needs a device, which initializes
// the driver. An invalid value is orErrorInitialization, and is read again by the next call.

// LITERALINCLUDE START: driver-properties
// A number is 0 if the device has no such property or the driver does not know it.
typedef struct orDeviceProp {
  char name[64];  // of the device
  char driver[64];  // the driver's kind: "simulated", "minimal", "OpenCL: Portable Computing Language"
  size_t total_memory;  // bytes
  size_t max_allocation;  // bytes of the largest single allocation
  size_t allocation_alignment;  // bytes, a power of two, at least 16; orMalloc returns multiples of it
  size_t local_memory;  // bytes that a group of work-items shares (CUDA: shared memory of a block)
  int major;
  int minor;
  int compute_units;  // how many groups run concurrently (CUDA: multiprocessors)
  int max_group_size;  // work-items of one group (CUDA: threads of a block)
  int simd_width;  // work-items that run in lockstep (CUDA: a warp)
  int has_unified_memory;  // 1: host code may use device addresses
  int has_fp16;  // 1: kernels may compute in it
  int has_bf16;
  int has_fp64;
  unsigned char uuid[16];  // distinguishes like devices, the same in every process; all zeros if the device has none
} orDeviceProp;
// LITERALINCLUDE END: driver-properties

OR_CALL orError_t orDriverGetVersion(int* version);  // 1000 * major + minor
// The number of devices. It never changes: the backend queries it once and checks every index against it.
OR_CALL orError_t orGetDeviceCount(int* count);
// The calling thread's current device: 0 in a new thread, whatever other threads have set. PyTorch's guards read and
// set it around almost every operator, and autograd runs a thread for each device.
OR_CALL orError_t orGetDevice(int* device);
// A device that does not exist is orErrorInvalidDevice and changes nothing.
OR_CALL orError_t orSetDevice(int device);
// The values that get_device_properties() shows.
OR_CALL orError_t orGetDeviceProperties(orDeviceProp* properties, int device);

// Waits for all work on all streams of the current device, and reports the error of a failed kernel:
// torch.accelerator.synchronize().
OR_CALL orError_t orDeviceSynchronize(void);

// Returns the current device to its initial state: drops queued work, ends a hanging kernel, clears the sticky error,
// frees all device memory and destroys the device's streams and events. Their pointers and handles become invalid; the
// default stream survives. A thread that is waiting for the dropped work gets orErrorLaunchFailure, which is not
// sticky. The backend never calls it, since tensors would lose their memory: in PyTorch, recovery takes a new process.
OR_CALL orError_t orDeviceReset(void);

// ---- Memory -----------------------------------------------------------------------------------------------------
//
// Host code cannot read or write device addresses: such an access faults, and the driver's fault handler reports it on
// stderr before the process dies (or the previously installed handler takes over). The exception is a device with
// has_unified_memory: its addresses may be host addresses, and the driver need not recognize a pointer to freed device
// memory. Where orErrorFreedPointer is promised, it may return orErrorInvalidPointer instead; a copy may return
// orErrorInvalidMemcpyKind, and orPointerGetAttributes may report unregistered memory.

typedef enum orMemoryType {
  orMemoryTypeUnregistered = 0,  // memory that the driver does not know: ordinary ("pageable") host memory
  orMemoryTypeHost = 1,  // pinned host memory, from orMallocHost
  orMemoryTypeDevice = 2,
} orMemoryType;

typedef struct orPointerAttributes {
  orMemoryType type;
  int device;  // the device that holds the memory; -1 unless type is orMemoryTypeDevice
  void* base;  // start of the allocation; null for unregistered memory
  size_t size;  // its size in bytes as requested; 0 for unregistered memory
} orPointerAttributes;

typedef enum orMemcpyKind {
  orMemcpyHostToHost = 0,
  orMemcpyHostToDevice = 1,
  orMemcpyDeviceToHost = 2,
  orMemcpyDeviceToDevice = 3,  // on one device or between two
  orMemcpyDefault = 4,  // inferred from where the pointers lie
} orMemcpyKind;

typedef struct orStream* orStream_t;
typedef struct orEvent* orEvent_t;
typedef struct orKernel* orKernel_t;

// LITERALINCLUDE START: driver-memory
// Allocates memory on the current device. Zero bytes give a null pointer, which is the data_ptr() of a tensor without
// elements. Too little free memory is orErrorMemoryAllocation: the caching allocator then frees its cached blocks and
// retries. Views do arithmetic on the address, up to the end of the allocation; host code need not be able to use it.
OR_CALL orError_t orMalloc(void** pointer, size_t bytes);
// Waits for the device that holds the memory, then frees it. Null is allowed. Like every function that waits, it
// reports a device failure, and then leaves the memory allocated. It is called from any thread, whatever that thread's
// current device: a tensor dies wherever its last reference is dropped.
OR_CALL orError_t orFree(void* pointer);
// Free and total bytes of the current device, for torch.accelerator.get_memory_info().
OR_CALL orError_t orMemGetInfo(size_t* free_bytes, size_t* total_bytes);

// Allocates pinned host memory: host code may access it, and asynchronous copies need no staging buffer. Without it
// pin_memory() raises, and so does x.to("cpu", non_blocking=True), whose result PyTorch pins; other copies wait.
OR_CALL orError_t orMallocHost(void** pointer, size_t bytes);
// Waits for all devices, since a copy on any of them may still use the memory, and frees it even if one has failed.
// Null is allowed.
OR_CALL orError_t orFreeHost(void* pointer);

// Reports what a pointer points to. A pointer unknown to the driver is not an error: it is unregistered memory. A
// pointer into an unallocated part of a device's address range is orErrorFreedPointer. is_pinned() calls it for any CPU
// tensor.
OR_CALL orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer);

// Copies, and returns when the bytes have arrived. Runs after the work queued earlier on the default stream of each
// device involved.
OR_CALL orError_t orMemcpy(void* dst, const void* src, size_t bytes, orMemcpyKind kind);
// Queues the copy on the stream. A pageable source is read before the call returns; a copy to pageable memory has
// finished when it returns; pinned and device memory must stay allocated and unchanged until the stream has passed the
// copy. The backend makes all its copies with this function: a CPU tensor may die as soon as x.to(device) returns, and
// x.cpu() is read at once.
OR_CALL orError_t orMemcpyAsync(void* dst, const void* src, size_t bytes, orMemcpyKind kind, orStream_t stream);
// Fill device memory with the low byte of the value. The first waits until the bytes are written; the second queues.
OR_CALL orError_t orMemset(void* pointer, int value, size_t bytes);
OR_CALL orError_t orMemsetAsync(void* pointer, int value, size_t bytes, orStream_t stream);
// LITERALINCLUDE END: driver-memory

// ---- Streams ----------------------------------------------------------------------------------------------------
//
// LITERALINCLUDE START: driver-streams
// Work on a stream runs in the order in which it was queued. A null stream is the default stream of the calling
// thread's current device; every device has one, and it does not wait for other streams. A stream's worker thread
// starts with the first work queued. Operators read each other's output without synchronizing: every result rests on
// this order. A driver may also finish all work before its functions return.

// Every thread starts on this stream. It lives as long as the driver, so callers query its handle only once.
OR_CALL orError_t orDeviceGetDefaultStream(orStream_t* stream, int device);
// Lowest (0) and highest (-1) priority. On hardware the smaller number is served first; the simulated device stores and
// reports a stream's priority, but treats all streams alike. If both are the same number, every stream has it.
OR_CALL orError_t orDeviceGetStreamPriorityRange(int* lowest, int* highest);
// Creates a stream on the current device. The handle is never null, because null means the default stream.
OR_CALL orError_t orStreamCreate(orStream_t* stream);
// A priority outside the range is clamped.
OR_CALL orError_t orStreamCreateWithPriority(orStream_t* stream, int priority);
// Waits for the stream's work, then destroys it. The default stream cannot be destroyed. A failure that was not yet
// reported stays unreported. The backend destroys no stream: a torch.Stream is a number that any code may have copied.
OR_CALL orError_t orStreamDestroy(orStream_t stream);
// Rejects a stale, foreign or made-up handle, as do all functions below.
OR_CALL orError_t orStreamGetDevice(orStream_t stream, int* device);
OR_CALL orError_t orStreamGetPriority(orStream_t stream, int* priority);
// Waits for work queued before the call, not for work that other threads queue meanwhile.
OR_CALL orError_t orStreamSynchronize(orStream_t stream);
// orSuccess if all work queued so far has finished, otherwise orErrorNotReady. Does not wait: PyTorch polls.
OR_CALL orError_t orStreamQuery(orStream_t stream);
// Work queued on the stream after this call waits for the event's last record at the time of the call. An event that
// was never recorded blocks nothing. The event may belong to another device. The host does not wait, and may destroy
// the event at once, as copies between streams do.
OR_CALL orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event);
// LITERALINCLUDE END: driver-streams

// ---- Events -----------------------------------------------------------------------------------------------------
//
// LITERALINCLUDE START: driver-events
// An event belongs to the device that was current at its creation, and is recorded on streams of that device. Recording
// it again moves it; earlier waits keep the record that was the last when they began. An event that was never recorded
// counts as passed. The allocators reuse a block once the events of its other streams have passed: if an event passes
// too early, two tensors share their bytes.

enum { orEventDefault = 0, orEventDisableTiming = 1 };

OR_CALL orError_t orEventCreate(orEvent_t* event);
// torch.Event() disables timing unless enable_timing is set.
OR_CALL orError_t orEventCreateWithFlags(orEvent_t* event, unsigned flags);
// Does not wait. Streams that wait for the event keep waiting.
OR_CALL orError_t orEventDestroy(orEvent_t event);
// The event passes when the stream has finished the work queued before this call.
OR_CALL orError_t orEventRecord(orEvent_t event, orStream_t stream);
OR_CALL orError_t orEventSynchronize(orEvent_t event);
// orSuccess if the last record has passed, otherwise orErrorNotReady. Does not wait: the allocators poll.
OR_CALL orError_t orEventQuery(orEvent_t event);
// Milliseconds from the first event to the second, negative if the second came first. Both need timing and a record;
// until both have passed, the result is orErrorNotReady.
OR_CALL orError_t orEventElapsedTime(double* milliseconds, orEvent_t start, orEvent_t end);
// LITERALINCLUDE END: driver-events

// ---- Kernels ----------------------------------------------------------------------------------------------------
//
// LITERALINCLUDE START: driver-launch-modes
// OPENREG_LAUNCH, read once, decides where a kernel runs:
//   auto    (default) a small kernel for an idle stream runs on the calling thread, everything else is queued
//   async   every kernel is queued
//   inline  every kernel, copy and memset runs on the calling thread, after the stream's earlier work
// Copies and memsets follow the same rule; small is up to 1 MiB. In auto, a copy that its caller has to wait for also
// runs on the calling thread when the stream is idle, however large.
// A failure is stored. In auto and async the next function that synchronizes returns it, even if the kernel ran on the
// calling thread; in inline the launch itself does. Until then launches succeed, but the device runs nothing more. Once
// it is reported, every function that touches the device returns it, until orDeviceReset.
// These functions synchronize: orDeviceSynchronize, orStreamSynchronize, orEventSynchronize, orMemcpy, orMemset,
// orFree, orMemcpyAsync to pageable memory. orStreamQuery and orEventQuery report failures, too, and so does
// orEventElapsedTime if a failure has dropped a record.
// LITERALINCLUDE END: driver-launch-modes

// The kernels built into the device: "sleep" (argument: uint64_t nanoseconds; always queued unless the mode is inline)
// keeps a stream busy, so that asynchronous behavior can be observed. Tests and examples call it through
// torch.openreg._sleep; PyTorch does not need it.
OR_CALL orError_t orGetKernel(orKernel_t* kernel, const char* name);
// The argument bytes are copied before the call returns; their number must match the kernel's.
OR_CALL orError_t orLaunchKernel(orKernel_t kernel, const void* arguments, size_t argument_bytes, orStream_t stream);

#ifdef __cplusplus
}
#endif
