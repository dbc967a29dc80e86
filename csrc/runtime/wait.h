// Host waits for the device that Ctrl-C can interrupt. Called on any thread, with or without the GIL.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/FunctionRef.h>

#include "driver/openreg.h"
#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: wait-contract
// Called now and then by a waiting main thread: throws when the user has pressed Ctrl-C. The runtime does not depend on
// Python, so the bindings set it, once. Without one nothing here waits.
using InterruptCheck = void (*)();
OPENREG_EXPORT void set_interrupt_check(InterruptCheck check);

// On the process's main thread, where Python runs signal handlers: waits for the work queued before the call, and calls
// the interrupt check meanwhile. On other threads, returns at once. It reports no errors: the driver's own wait
// follows, and then has little left to wait for.
// Throws: what the check throws. The work continues.
OPENREG_EXPORT void wait_for_stream(orStream_t stream, c10::DeviceIndex device);
// The same for all streams that the backend has created on the device. A graph of another device that uses this one is
// waited for by the driver alone.
void wait_for_device(c10::DeviceIndex device);
void wait_for_event(orEvent_t event);
// LITERALINCLUDE END: wait-contract

// How many interrupt checks the calling thread is in. What runs within one belongs to the program, and not to the call
// that waits.
int interrupt_depth() noexcept;

// Runs a wait without the GIL, for those in functions that PyTorch may call with it, such as the copies of torch.save:
// other threads of Python go on. The bindings set how, once; without them there is no GIL.
using WaitRunner = void (*)(c10::function_ref<void()> wait);
OPENREG_EXPORT void set_wait_runner(WaitRunner runner);
void wait_without_gil(c10::function_ref<void()> wait);

}  // namespace openreg
