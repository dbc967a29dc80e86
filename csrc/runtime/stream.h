// Streams: which queue of the device receives the work of the calling thread.
//
// This backend gives each device its default stream. PyTorch names a stream by (device, id); the default stream has
// the id 0. torch.Stream("openreg"), which would create another one, raises PyTorch's own error.
#pragma once

#include <c10/core/Stream.h>

#include "driver/openreg.h"

namespace openreg {

c10::Stream default_stream(c10::DeviceIndex index);

// The driver's handle of a PyTorch stream.
// Throws: when the stream is not one of this backend.
orStream_t stream_handle(const c10::Stream& stream);

// The driver's handle of the stream that takes the device's work: what kernels and copies are queued on.
orStream_t current_stream_handle(c10::DeviceIndex index);

}  // namespace openreg
