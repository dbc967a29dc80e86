// Streams: which queue of the device receives the work of the calling thread.
//
// PyTorch names a stream by its device and a 64-bit id that the backend chooses. Here the id is the driver's handle,
// and 0 is the device's default stream, as PyTorch requires. So no table maps ids to handles, and a stream that another
// library created has an id as well.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <vector>

#include "driver/openreg.h"
#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: stream-functions
// -1 is the current device in all functions here.
OPENREG_EXPORT c10::Stream default_stream(int64_t index);

// The current stream is per-thread state, one for each device; every thread starts with the default streams.
OPENREG_EXPORT c10::Stream current_stream(int64_t index);

// Makes the stream current on its device and returns the previous one. The current device stays as it is.
// Throws: when the stream does not exist, or no longer exists, or belongs to another device.
c10::Stream exchange_stream(const c10::Stream& stream);

// A stream from the device's pool. There are 32 for each priority, each created on first use; the 33rd caller shares
// one with the first. A priority below 0 is high, any other normal.
c10::Stream stream_from_pool(c10::DeviceIndex index, int priority);

// A stream for a capture that the backend begins by itself, from a pool of its own. A program never gets it: what
// another thread queues on a captured stream is recorded, and does not run.
OPENREG_EXPORT c10::Stream stream_for_capture(int64_t index);

// A stream that other code created with the driver, and will destroy: not while PyTorch uses it.
// Throws: when the driver does not know the stream.
OPENREG_EXPORT c10::Stream external_stream(uint64_t handle);

OPENREG_EXPORT int stream_priority(const c10::Stream& stream);

// The driver's handle of a PyTorch stream.
// Throws: when the stream is not one of this backend, or does not belong to the device that it names.
orStream_t stream_handle(const c10::Stream& stream);

// The driver's handle of the calling thread's current stream, which kernels and copies are queued on.
OPENREG_EXPORT orStream_t current_stream_handle(c10::DeviceIndex index);

// The driver's handles of the device's default stream, and of all streams of its pools created so far.
std::vector<orStream_t> stream_handles(c10::DeviceIndex index);
// LITERALINCLUDE END: stream-functions

}  // namespace openreg
