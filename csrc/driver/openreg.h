// The driver interface of openreg, a simulated accelerator: what every device has.
//
// The shape is that of the CUDA runtime API, so that each function has an obvious counterpart in a vendor's own
// driver. The library behind it knows nothing of PyTorch. What a device may have beyond it lives in headers of their
// own: openreg_modules.h (kernels in the device's language), openreg_extended.h and openreg_activity.h; and what only a
// simulation can offer, in openreg_host_kernels.h and openreg_faults.h.
//
// Contract of every function here
//   Returns: orSuccess, or the error. The compiler refuses a call whose result is dropped.
//   Errors:  the last error of the calling thread is kept for orGetLastError, its full text for orGetErrorDetail.
//   Thread:  safe from any thread. The current device is a property of the thread.
//   Fork:    a child of a process that had initialised the driver gets orErrorForked from every function that
//            needs a device, at once and without taking a lock. What needs none keeps working: the error functions,
//            orDriverGetVersion, orGetDevice, orDeviceGetStreamPriorityRange and orGetKernel.
//   Exit:    queued work is dropped, a running kernel is waited for. A call that comes later, from a static
//            destructor say, finds the device idle, and gets orErrorDeinitialized where it brings work, or waits for
//            work that was dropped. On other threads such a call never returns.
//   Offered: what a driver cannot do answers orErrorNotSupported, which becomes NotImplementedError. The text of each
//            function says what PyTorch relies on it for; conformance/driver asks a library whether it does all that.
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
// A function that a driver may leave out. Its address is null then, which the caller asks before a call.
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
  orErrorNotReady = 10,  // queried work has not finished: an answer, never kept as the last error
  orErrorLaunchFailure = 11,  // a kernel failed; stays until orDeviceReset
  orErrorDeviceLost = 12,  // the device is gone; stays until orDeviceReset
  orErrorForked = 13,  // the driver was initialised before this process was forked
  orErrorInitialization = 14,  // the driver could not start: a bad environment variable, no address space
  orErrorNotSupported = 15,  // the driver was built without what was asked for
  orErrorDeinitialized = 16,  // the process is ending, and the work was dropped
  orErrorCompilation = 17,  // the source of a module does not compile, or the binary is not for this device
} orError_t;
// LITERALINCLUDE END: driver-errors

// "orErrorInvalidDevice" and a sentence on what it means. Never null, for unknown values too. The message of every
// exception begins with both.
OR_API const char* orGetErrorName(orError_t error);
OR_API const char* orGetErrorString(orError_t error);

// The last error of the calling thread. Get clears it and Peek does not; an error that stays (LaunchFailure,
// DeviceLost) is cleared by orDeviceReset alone. The backend clears it when it has made the exception.
OR_API orError_t orGetLastError(void);
OR_API orError_t orPeekLastError(void);

// What went wrong in the last failing call of the calling thread: the function, what it was given, what is valid;
// for a failed kernel its name and message. Valid until the next failing call of this thread; "" before the first.
// It ends the message of the exception, and is all that a user learns of the cause.
OR_API const char* orGetErrorDetail(void);

// ---- Devices ----------------------------------------------------------------------------------------------------
//
// OPENREG_DEVICE_COUNT (default 2, 1 to 16) and OPENREG_DEVICE_MEMORY (bytes per device, suffixes K M G allowed;
// default 4G, 32M to 1024G, rounded up to 2M) are read once, when the first function that needs a device is called;
// that initialises the driver. A value that is not understood is orErrorInitialization, and is read again next time.

// LITERALINCLUDE START: driver-properties
// A number that the device does not have, or the driver does not know, is 0.
typedef struct orDeviceProp {
  char name[64];  // of the device
  char driver[64];  // who answers: "simulated", "minimal", "OpenCL: Portable Computing Language"
  size_t total_memory;  // bytes
  size_t max_allocation;  // bytes of the largest single allocation
  size_t allocation_alignment;  // bytes, a power of two from 16 on; every pointer from orMalloc is a multiple
  size_t local_memory;  // bytes that a group of work-items shares (CUDA: shared memory of a block)
  int major;
  int minor;
  int compute_units;  // how many groups run side by side (CUDA: multiprocessors)
  int max_group_size;  // work-items of one group (CUDA: threads of a block)
  int simd_width;  // work-items that run in step (CUDA: a warp)
  int has_unified_memory;  // 1: host code may use device addresses
  int has_fp16;  // 1: kernels may compute in it
  int has_bf16;
  int has_fp64;
  unsigned char uuid[16];  // tells devices of one kind apart, the same in each process; all zeros where there is none
} orDeviceProp;
// LITERALINCLUDE END: driver-properties

OR_CALL orError_t orDriverGetVersion(int* version);  // 1000 * major + minor
// The number of devices, which never changes: the backend asks once, remembers, and checks every index against it.
OR_CALL orError_t orGetDeviceCount(int* count);
// The current device of the calling thread: 0 in a new thread, whatever that of others. Guards of PyTorch read it and
// set it around almost every operator, and autograd runs a thread for each device.
OR_CALL orError_t orGetDevice(int* device);
// A device that does not exist is orErrorInvalidDevice and changes nothing.
OR_CALL orError_t orSetDevice(int device);
// What get_device_properties() shows.
OR_CALL orError_t orGetDeviceProperties(orDeviceProp* properties, int device);

// Waits for all work of the current device, on all its streams, and reports the error of a kernel that failed:
// torch.accelerator.synchronize().
OR_CALL orError_t orDeviceSynchronize(void);

// Returns the current device to its first state: drops queued work, ends a hanging kernel, clears the error that
// stays, frees all memory of the device and ends its streams and events. Their pointers and handles are dead; the
// default stream lives on. A thread that waits for the dropped work meanwhile gets orErrorLaunchFailure, which does
// not stay. The backend never calls it, since tensors would lose their memory: PyTorch's way out is a new process.
OR_CALL orError_t orDeviceReset(void);

// ---- Memory -----------------------------------------------------------------------------------------------------
//
// Device addresses cannot be read or written by host code: such an access faults, and the driver's fault handler
// says so on stderr before the process dies (or the handler installed earlier takes over). A device with
// has_unified_memory is the exception. Its addresses may be those of the host, and a driver need not know then that a
// pointer was once device memory: where orErrorFreedPointer is promised, it may answer orErrorInvalidPointer, a copy
// orErrorInvalidMemcpyKind, and orPointerGetAttributes that the memory is unregistered.

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
  orMemcpyDefault = 4,  // decided by where the pointers lie
} orMemcpyKind;

typedef struct orStream* orStream_t;
typedef struct orEvent* orEvent_t;
typedef struct orKernel* orKernel_t;

// LITERALINCLUDE START: driver-memory
// Memory of the current device. Zero bytes give a null pointer, which is the data_ptr() of a tensor without elements.
// Too little memory is orErrorMemoryAllocation: the caching allocator then frees what it keeps and asks again. The
// address can be added to, up to the end of the allocation, as views do; that host code can use it is not needed.
OR_CALL orError_t orMalloc(void** pointer, size_t bytes);
// Waits for the work of the device that holds the memory, then frees it. Null is allowed. A failure of the device,
// reported here as by every function that waits, leaves the memory allocated. Any thread calls it, whichever device is
// current there: tensors die where their last reference is.
OR_CALL orError_t orFree(void* pointer);
// Free and total bytes of the current device, for torch.accelerator.get_memory_info().
OR_CALL orError_t orMemGetInfo(size_t* free_bytes, size_t* total_bytes);

// Pinned host memory: host code may touch it, and asynchronous copies need no staging buffer. Without it pin_memory()
// raises, and non_blocking=True brings nothing.
OR_CALL orError_t orMallocHost(void** pointer, size_t bytes);
// Waits for the work of all devices, since a copy of any of them may still use the memory, and frees it even if one
// has failed. Null is allowed.
OR_CALL orError_t orFreeHost(void* pointer);

// Where a pointer lies. A pointer that the driver does not know is no error: it is unregistered memory. A pointer
// into a device's address range that is not allocated is orErrorFreedPointer. is_pinned() asks it of any CPU tensor.
OR_CALL orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer);

// Copies and returns when the bytes have arrived. Work queued earlier on the default stream of each device
// involved comes first.
OR_CALL orError_t orMemcpy(void* dst, const void* src, size_t bytes, orMemcpyKind kind);
// Queues the copy on the stream. From pageable memory the source is read before the call returns; to pageable
// memory the copy has finished when it returns; pinned and device memory must stay allocated and unchanged until
// the stream has passed the copy. All copies of the backend are this one: a CPU tensor may die as soon as x.to(device)
// returns, and x.cpu() is read at once.
OR_CALL orError_t orMemcpyAsync(void* dst, const void* src, size_t bytes, orMemcpyKind kind, orStream_t stream);
// Fill device memory with the last byte of the value: the bytes are there when the first returns, the second queues.
OR_CALL orError_t orMemset(void* pointer, int value, size_t bytes);
OR_CALL orError_t orMemsetAsync(void* pointer, int value, size_t bytes, orStream_t stream);
// LITERALINCLUDE END: driver-memory

// ---- Streams ----------------------------------------------------------------------------------------------------
//
// LITERALINCLUDE START: driver-streams
// Work of one stream runs in the order in which it was queued. A null stream is the default stream of the calling
// thread's current device; every device has one, and it does not wait for other streams. The thread that serves a
// stream starts with the stream's first queued work. An operator takes its input from the one before without a word:
// this order is what every result rests on. A driver may as well finish all work before its functions return.

// Every thread begins with it. It lasts as long as the driver: its handle is asked for once.
OR_CALL orError_t orDeviceGetDefaultStream(orStream_t* stream, int device);
// Lowest (0) and highest (-1) priority. On hardware the smaller number is served first; the simulated device keeps and
// reports a stream's priority, but serves all streams alike. Where both are one number, all streams have it.
OR_CALL orError_t orDeviceGetStreamPriorityRange(int* lowest, int* highest);
// A stream of the current device. The handle is not null: that means the default stream.
OR_CALL orError_t orStreamCreate(orStream_t* stream);
// A priority outside the range is brought into it.
OR_CALL orError_t orStreamCreateWithPriority(orStream_t* stream, int priority);
// Waits for the stream's work, then ends it. The default stream cannot be destroyed. A failure that was not reported
// yet stays unreported. The backend destroys none: a torch.Stream is a number that anybody may have copied.
OR_CALL orError_t orStreamDestroy(orStream_t stream);
// Refuses a handle that is dead, foreign or made up, as do all functions below.
OR_CALL orError_t orStreamGetDevice(orStream_t stream, int* device);
OR_CALL orError_t orStreamGetPriority(orStream_t stream, int* priority);
// Waits for what was queued before the call, and not for what other threads queue meanwhile.
OR_CALL orError_t orStreamSynchronize(orStream_t stream);
// orSuccess when all work queued so far has finished, else orErrorNotReady. Does not wait: PyTorch polls.
OR_CALL orError_t orStreamQuery(orStream_t stream);
// Work queued on the stream after this call waits for the event's last record at the time of the call. An event
// that was never recorded holds nothing up. The event may belong to another device. The host does not wait, and may
// destroy the event at once: copies between streams do.
OR_CALL orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event);
// LITERALINCLUDE END: driver-streams

// ---- Events -----------------------------------------------------------------------------------------------------
//
// LITERALINCLUDE START: driver-events
// An event belongs to the device that was current at its creation, and is recorded on streams of that device. Record
// it again and it moves: whoever asked before goes by the record that was the last at that time. One that was never
// recorded has passed. The allocators hand a block out again when the events of its other streams have passed: with one
// that passes too early two tensors share their bytes.

enum { orEventDefault = 0, orEventDisableTiming = 1 };

OR_CALL orError_t orEventCreate(orEvent_t* event);
// torch.Event() has no timing unless it asks for it.
OR_CALL orError_t orEventCreateWithFlags(orEvent_t* event, unsigned flags);
// Does not wait. Streams that wait for the event go on waiting.
OR_CALL orError_t orEventDestroy(orEvent_t event);
// The event passes when the stream has done what was queued on it before, not what comes later.
OR_CALL orError_t orEventRecord(orEvent_t event, orStream_t stream);
OR_CALL orError_t orEventSynchronize(orEvent_t event);
// orSuccess when the last record has passed, else orErrorNotReady. Does not wait: the allocators poll.
OR_CALL orError_t orEventQuery(orEvent_t event);
// Milliseconds from the first event to the second, negative when the second came first. Both need timing, a record, and
// to have been passed; before that it is orErrorNotReady.
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
// A failure is stored. In auto and async it is returned by the next function that synchronises, even when the
// kernel ran on the calling thread; in inline by the launch itself. Until then launches succeed, but nothing runs on
// the device any more. Once returned, every function that touches the device returns it, until orDeviceReset.
// The functions that synchronise: orDeviceSynchronize, orStreamSynchronize, orEventSynchronize, orMemcpy, orMemset,
// orFree, orMemcpyAsync to pageable memory; and orStreamQuery, orEventQuery and orEventElapsedTime ask.
// LITERALINCLUDE END: driver-launch-modes

// The kernels that are built into the device: "sleep" (argument: uint64_t nanoseconds; always queued unless the
// mode is inline) keeps a stream busy, so that what is asynchronous can be seen. Tests and examples need it, by
// torch.openreg._sleep; PyTorch does not.
OR_CALL orError_t orGetKernel(orKernel_t* kernel, const char* name);
// The argument bytes are copied before the call returns; their number must be the kernel's own.
OR_CALL orError_t orLaunchKernel(orKernel_t kernel, const void* arguments, size_t argument_bytes, orStream_t stream);

#ifdef __cplusplus
}
#endif
