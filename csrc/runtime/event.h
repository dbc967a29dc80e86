// Events: points in the work of a stream, for c10::Event and torch.Event.
//
// PyTorch holds an event as a void* that is null until the first record, which determines the device. The first record
// stores the driver's handle there. An event that was never recorded has passed.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace openreg {

// LITERALINCLUDE START: event-functions
// Records the event behind the work that is queued on the stream now. Creates the event first if it is null.
// Throws: when the stream and the event belong to different devices.
void record_event(void** event, const c10::Stream& stream, c10::DeviceIndex index, c10::EventFlag flag);

// Makes the stream wait for the event, and not the host.
void block_stream(void* event, const c10::Stream& stream);

bool query_event(void* event);
void synchronize_event(void* event);

// Milliseconds.
// Throws: unless both were recorded with timing on streams of one device, and have passed.
double elapsed_time(void* start, void* end);

void destroy_event(void* event) noexcept;

// Makes work queued on `later` from now on wait for the work queued on `earlier` so far.
void order_streams(const c10::Stream& earlier, const c10::Stream& later);
// LITERALINCLUDE END: event-functions

}  // namespace openreg
