// Streams over the driver's stream handles. Called on any thread, with or without the GIL.
#include "runtime/stream.h"

#include <c10/util/Exception.h>

#include "runtime/device.h"
#include "runtime/error.h"

namespace openreg {

c10::Stream default_stream(c10::DeviceIndex index) {
  return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kPrivateUse1, resolve_device_index(index)));
}

orStream_t stream_handle(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == c10::kPrivateUse1, "openreg: a stream of this backend is needed, got ", stream);
  TORCH_CHECK_NOT_IMPLEMENTED(stream.id() == 0, "openreg: each device has its default stream (id 0) only, got ",
                              stream);
  return current_stream_handle(stream.device_index());
}

orStream_t current_stream_handle(c10::DeviceIndex index) {
  orStream_t handle = nullptr;
  check(orDeviceGetDefaultStream(&handle, index));
  return handle;
}

}  // namespace openreg
