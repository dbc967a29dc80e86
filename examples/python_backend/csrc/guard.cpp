// The device guard: devices, streams and events for PyTorch's C++. Called on any thread, with or without the GIL. The
// current device and streams are per-thread state and are kept here; Python does everything else.
#include <c10/core/DeviceCapability.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <utility>

#include "glue.h"

namespace remote {
namespace {

// LITERALINCLUDE START: remote-current
constexpr int kMaximum = 16;  // devices; Python rejects more
thread_local c10::DeviceIndex device = 0;
thread_local std::array<int64_t, kMaximum> streams{};  // 0 is the default stream of each device

// Not initialized by the question itself: a child that is forked meanwhile would wait for ever for the thread that
// asks.
std::atomic<int> devices = -1;

int count() {
  if (devices < 0) devices = ask<int>("device_count");
  return devices;
}

c10::DeviceIndex exchange(c10::DeviceIndex index) {
  TORCH_CHECK(index < count(), "remote:", static_cast<int>(index),
              " does not exist: TORCH_REMOTE_DEVICES sets how many devices there are, now ", count());
  return index < 0 ? device : std::exchange(device, index);
}
// LITERALINCLUDE END: remote-current

uintptr_t name(const void* event) { return reinterpret_cast<uintptr_t>(event); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kRemote; }

  // LITERALINCLUDE START: remote-guard-devices
  // An error means no devices: an exception would end the process, because this function is noexcept.
  c10::DeviceIndex deviceCount() const noexcept override {
    try {
      return static_cast<c10::DeviceIndex>(count());
    } catch (py::error_already_set& error) {        // NOT PROVEN: tests/test_process.py
      const py::gil_scoped_acquire gil;             // NOT PROVEN: lets it raise
      error.discard_as_unraisable("device_count");  // NOT PROVEN: as above
      return 0;                                     // NOT PROVEN: as above
    }
  }
  c10::Device getDevice() const override { return {kRemote, device}; }
  c10::Device exchangeDevice(c10::Device to) const override { return {kRemote, exchange(to.index())}; }
  void setDevice(c10::Device to) const override { exchange(to.index()); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { device = to.has_index() ? to.index() : device; }
  void synchronizeDevice(c10::DeviceIndex index) const override { ask("synchronize", static_cast<int>(index)); }
  // All dtypes of this PyTorch, since the CPU has kernels for all of them: the default capability means that.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }
  // LITERALINCLUDE END: remote-guard-devices

  // LITERALINCLUDE START: remote-guard-streams
  c10::Stream getStream(c10::Device of) const override { return stream(of, streams.at(resolved(of))); }
  c10::Stream getDefaultStream(c10::Device of) const override { return stream(of, 0); }  // NOT PROVEN: libraries use it
  c10::Stream getNewStream(c10::Device of, int) const override { return stream(of, ask<int64_t>("new_stream")); }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool) const override { return getNewStream(of, 0); }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream(to.device(), std::exchange(streams.at(to.device_index()), to.id()));
  }
  void* getStreamNativeHandle(const c10::Stream of) const override { return reinterpret_cast<void*>(of.id()); }
  bool queryStream(const c10::Stream& of) const override { return ask<bool>("query_stream", index(of), of.id()); }
  void synchronizeStream(const c10::Stream& of) const override { ask("synchronize_stream", index(of), of.id()); }
  // LITERALINCLUDE END: remote-guard-streams

  // LITERALINCLUDE START: remote-guard-events
  // The pointer that PyTorch keeps for an event is its address; null means that it was never recorded.
  void record(void** event, const c10::Stream& on, c10::DeviceIndex, c10::EventFlag) const override {
    *event = reinterpret_cast<void*>(ask<uintptr_t>("record_event", name(*event), index(on), on.id()));
  }
  void block(void* event, const c10::Stream& on) const override {
    if (event != nullptr) {
      ask("wait_event", name(event), index(on), on.id());
    }
  }
  bool queryEvent(void* event) const override { return event == nullptr || ask<bool>("query_event", name(event)); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      ask("synchronize_event", name(event));
    }
  }
  double elapsedTime(void* start, void* end, c10::DeviceIndex) const override {
    return ask<double>("elapsed_time", name(start), name(end));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { tell("free", name(event)); }
  // LITERALINCLUDE END: remote-guard-events

 private:
  static int index(const c10::Stream& of) { return of.device_index(); }
  static c10::DeviceIndex resolved(c10::Device of) { return of.has_index() ? of.index() : device; }
  static c10::Stream stream(c10::Device of, int64_t id) {
    return c10::Stream(c10::Stream::UNSAFE, {kRemote, resolved(of)}, id);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

c10::DeviceIndex current_device() { return device; }

int64_t current_stream(c10::DeviceIndex index) { return streams.at(index); }

}  // namespace remote
