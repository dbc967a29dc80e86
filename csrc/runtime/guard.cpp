// The device guard: how device-agnostic PyTorch code switches devices and asks about streams and events.
//
// Registered once for the PrivateUse1 device type and called by c10::DeviceGuard, the autograd engine,
// torch.accelerator, torch.Stream and torch.Event, on any thread. The object is never destroyed.
#include <c10/core/DeviceCapability.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

// An event is created by its first record, since only then is its device known.
orEvent_t create_event(c10::DeviceIndex index, c10::EventFlag flag) {
  const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, index));
  orEvent_t event = nullptr;
  check(
      orEventCreateWithFlags(&event, flag == c10::EventFlag::BACKEND_DEFAULT ? orEventDefault : orEventDisableTiming));
  return event;
}

bool is_finished(orError_t query) {
  if (query == orErrorNotReady) {
    return false;
  }
  check(query);
  return true;
}

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }

  // Devices.
  c10::Device exchangeDevice(c10::Device device) const override {
    return {c10::kPrivateUse1, exchange_device(device.index())};
  }
  c10::Device getDevice() const override { return {c10::kPrivateUse1, current_device()}; }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  // Called by destructors of guards: an exception here would end the process. In a forked child there is nothing to go
  // back to, and the call that the guard was for has said so.
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (!is_in_bad_fork()) {
      warn(orSetDevice(device.index()));
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count_or_zero(); }
  void synchronizeDevice(const c10::DeviceIndex index) const override { synchronize_device(index); }

  // Every dtype whose kernels the CPU fallback can run. PyTorch's default would claim the quantized and bit types too.
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    static_cast<void>(resolve_device_index(device.index()));
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    auto& types = capability.capability_data.supported_scalar_types;
    types.has_Bool = types.has_Byte = types.has_Char = types.has_Short = types.has_Int = types.has_Long = 1;
    types.has_UInt16 = types.has_UInt32 = types.has_UInt64 = 1;
    types.has_Half = types.has_BFloat16 = types.has_Float = types.has_Double = 1;
    types.has_ComplexHalf = types.has_ComplexFloat = types.has_ComplexDouble = 1;
    types.has_Float8_e4m3fn = types.has_Float8_e5m2 = 1;
    types.has_Float8_e4m3fnuz = types.has_Float8_e5m2fnuz = types.has_Float8_e8m0fnu = 1;
    return capability;
  }

  // Streams. getNewStream and getStreamFromGlobalPool keep PyTorch's own error: each device has one stream.
  c10::Stream getStream(c10::Device device) const override { return default_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(device.index()); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    static_cast<void>(stream_handle(stream));
    return default_stream(stream.device_index());
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return stream_handle(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    return is_finished(orStreamQuery(stream_handle(stream)));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check(orStreamSynchronize(stream_handle(stream)));
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    allocator().recordStream(data, stream);
  }

  // Events. PyTorch holds an event as a void* that is null until the first record.
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "openreg: an event of device ", static_cast<int>(index),
                " cannot be recorded on ", stream);
    if (*event == nullptr) {
      *event = create_event(stream.device_index(), flag);
    }
    check(orEventRecord(static_cast<orEvent_t>(*event), stream_handle(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      check(orStreamWaitEvent(stream_handle(stream), static_cast<orEvent_t>(event)));
    }
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || is_finished(orEventQuery(static_cast<orEvent_t>(event)));
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      check(orEventSynchronize(static_cast<orEvent_t>(event)));
    }
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "openreg: elapsed_time needs two events that have been recorded; record both first");
    double milliseconds = 0;
    check(orEventElapsedTime(&milliseconds, static_cast<orEvent_t>(start), static_cast<orEvent_t>(end)));
    return milliseconds;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr && !is_in_bad_fork()) {
      warn(orEventDestroy(static_cast<orEvent_t>(event)));
    }
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

}  // namespace
}  // namespace openreg
