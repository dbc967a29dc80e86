// The driver's built-in kernel "sleep", on the calling thread's current stream. Called on any thread.
#include "runtime/sleep.h"

#include <c10/util/Exception.h>

#include "driver/openreg.h"
#include "runtime/device.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {

// LITERALINCLUDE START: sleep-on-stream
void sleep_on_stream(int64_t nanoseconds) {
  TORCH_CHECK(nanoseconds >= 0, "openreg: _sleep takes a number of cycles from 0 on, got ", nanoseconds);
  const c10::DeviceIndex device = resolve_device_index(-1);
  orKernel_t kernel = nullptr;
  check(orGetKernel(&kernel, "sleep"));
  const auto duration = static_cast<uint64_t>(nanoseconds);
  const DriverCall call("orLaunchKernel");
  check(orLaunchKernel(kernel, &duration, sizeof(duration), current_stream_handle(device)));
}
// LITERALINCLUDE END: sleep-on-stream

}  // namespace openreg
