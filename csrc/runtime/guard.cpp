// The device guard: how device-agnostic PyTorch code switches devices and asks about streams and events.
//
// Registered once for the PrivateUse1 device type and called by c10::DeviceGuard, the autograd engine,
// torch.accelerator, torch.Stream and torch.Event, on any thread. The object is never destroyed.
#include <c10/core/DeviceCapability.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "runtime/allocator.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/event.h"
#include "runtime/kernel_error.h"
#include "runtime/stream.h"
#include "runtime/torch_version.h"
#include "runtime/trace.h"

namespace openreg {
namespace {

// As in torch.Stream(priority=...): a lower number is served first.
constexpr int kNormalPriority = 0;
constexpr int kHighPriority = -1;

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }

  // LITERALINCLUDE START: guard-devices
  c10::Device exchangeDevice(c10::Device device) const override {
    return {c10::kPrivateUse1, exchange_device(device.index())};
  }
  c10::Device getDevice() const override { return {c10::kPrivateUse1, current_device()}; }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  // Called by destructors of guards: an exception here would end the process. In a forked child there is no device to
  // restore, and the call that the guard was for has already raised the error.
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (!is_in_bad_fork()) {
      warn(orSetDevice(device.index()));
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count_or_zero(); }
  void synchronizeDevice(const c10::DeviceIndex index) const override { synchronize_device(index); }
  // LITERALINCLUDE END: guard-devices

  // LITERALINCLUDE START: guard-capability
  // The dtypes that can be allocated and converted into one another, which is what PyTorch means by a capability. A
  // default-constructed one would claim all dtypes.
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    static_cast<void>(resolve_device_index(device.index()));
    c10::DeviceCapability capability;
    capability.capability_data = {};
    auto& types = capability.capability_data.supported_scalar_types;
    types.has_Bool = types.has_Byte = types.has_Char = types.has_Short = types.has_Int = types.has_Long = 1;
    types.has_UInt16 = types.has_UInt32 = types.has_UInt64 = 1;
    types.has_Half = types.has_BFloat16 = types.has_Float = types.has_Double = 1;
    types.has_ComplexHalf = types.has_ComplexFloat = types.has_ComplexDouble = 1;
    types.has_Float8_e4m3fn = types.has_Float8_e5m2 = 1;
    types.has_Float8_e4m3fnuz = types.has_Float8_e5m2fnuz = types.has_Float8_e8m0fnu = 1;
#if OPENREG_TORCH_AT_LEAST(2, 14)
    types.has_BComplex32 = 1;
#endif
    return capability;
  }
  // LITERALINCLUDE END: guard-capability

  // LITERALINCLUDE START: guard-streams
  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(device.index()); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool isHighPriority) const override {
    return stream_from_pool(device.index(), isHighPriority ? kHighPriority : kNormalPriority);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return stream_from_pool(device.index(), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return stream_handle(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    orStream_t handle = stream_handle(stream);
    const bool is_idle = is_finished(orStreamQuery(handle));
    if (is_idle) trace(&Tracer::trace_gpu_stream_synchronization, traced(handle));  // as for an event that has passed
    return is_idle;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    openreg::synchronize_stream(stream_handle(stream), stream.device_index());
  }
  bool isStreamCapturing(const c10::Stream& stream) const override { return is_capturing(stream_handle(stream)); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    allocator().recordStream(data, stream);
  }
  // LITERALINCLUDE END: guard-streams

  // LITERALINCLUDE START: guard-events
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    record_event(event, stream, index, flag);
  }
  void block(void* event, const c10::Stream& stream) const override { block_stream(event, stream); }
  bool queryEvent(void* event) const override { return query_event(event); }
  void synchronizeEvent(void* event) const override { synchronize_event(event); }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override { return elapsed_time(start, end); }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { destroy_event(event); }
  // LITERALINCLUDE END: guard-events
};

// LITERALINCLUDE START: guard-registration
C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);
// LITERALINCLUDE END: guard-registration

}  // namespace
}  // namespace openreg
