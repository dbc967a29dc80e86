// Waits of the host for the device that Ctrl-C can end. Called on any thread, with or without the GIL.
#pragma once

#include <c10/core/Device.h>

#include "driver/openreg.h"
#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: wait-contract
// What a waiting main thread calls now and then: it throws when the user has pressed Ctrl-C. The runtime knows no
// Python, so the bindings set it, once. Without one nothing here waits.
using InterruptCheck = void (*)();
OPENREG_EXPORT void set_interrupt_check(InterruptCheck check);

// On the process's main thread, where Python runs the handlers of signals: waits for the work queued before the call,
// and calls the interrupt check meanwhile. Elsewhere returns at once. It reports nothing: what comes after it is the
// driver's own wait, which then has little left to wait for.
// Throws: what the check throws. The work goes on.
OPENREG_EXPORT void wait_for_stream(orStream_t stream, c10::DeviceIndex device);
// For all streams of the device that the backend has made.
void wait_for_device(c10::DeviceIndex device);
void wait_for_event(orEvent_t event);
// LITERALINCLUDE END: wait-contract

}  // namespace openreg
