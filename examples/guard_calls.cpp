// A device guard that notes which of its functions PyTorch calls, and leaves the work to the backend's guard, in whose
// place it is registered.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace {

using Guard = c10::impl::DeviceGuardImplInterface;

std::mutex mutex;
std::vector<std::string> called;

// LITERALINCLUDE START: guard-calls-noted
void note(const char* function) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (std::find(called.begin(), called.end(), function) == called.end()) {
    called.emplace_back(function);
  }
}

struct NotingGuard final : Guard {
  explicit NotingGuard(const Guard& backend) : backend_(backend) {}

  c10::Stream getStream(c10::Device device) const override {
    note(__func__);
    return backend_.getStream(device);
  }
  // LITERALINCLUDE END: guard-calls-noted
  c10::Stream getDefaultStream(c10::Device device) const override {
    note(__func__);
    return backend_.getDefaultStream(device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high) const override {
    note(__func__);
    return backend_.getStreamFromGlobalPool(device, high);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    note(__func__);
    return backend_.getNewStream(device, priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    note(__func__);
    return backend_.exchangeStream(stream);
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    note(__func__);
    return backend_.getStreamNativeHandle(stream);
  }
  bool queryStream(const c10::Stream& stream) const override {
    note(__func__);
    return backend_.queryStream(stream);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    note(__func__);
    backend_.synchronizeStream(stream);
  }
  bool isStreamCapturing(const c10::Stream& stream) const override {
    note(__func__);
    return backend_.isStreamCapturing(stream);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    note(__func__);
    backend_.recordDataPtrOnStream(data, stream);
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex index, c10::EventFlag flag) const override {
    note(__func__);
    backend_.record(event, stream, index, flag);
  }
  void block(void* event, const c10::Stream& stream) const override {
    note(__func__);
    backend_.block(event, stream);
  }
  bool queryEvent(void* event) const override {
    note(__func__);
    return backend_.queryEvent(event);
  }
  void synchronizeEvent(void* event) const override {
    note(__func__);
    backend_.synchronizeEvent(event);
  }
  double elapsedTime(void* start, void* end, c10::DeviceIndex index) const override {
    note(__func__);
    return backend_.elapsedTime(start, end, index);
  }
  void destroyEvent(void* event, c10::DeviceIndex index) const noexcept override {
    note(__func__);
    backend_.destroyEvent(event, index);
  }

  // Nearly every statement calls these; they are left out.
  c10::DeviceType type() const override { return backend_.type(); }
  c10::Device exchangeDevice(c10::Device device) const override { return backend_.exchangeDevice(device); }
  c10::Device getDevice() const override { return backend_.getDevice(); }
  void setDevice(c10::Device device) const override { backend_.setDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { backend_.uncheckedSetDevice(device); }
  c10::DeviceIndex deviceCount() const noexcept override { return backend_.deviceCount(); }
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    return backend_.getDeviceCapability(device);
  }
  void synchronizeDevice(c10::DeviceIndex index) const override { backend_.synchronizeDevice(index); }

 private:
  const Guard& backend_;
};

}  // namespace

// Called by guard_calls.py.
extern "C" void start_noting() {
  const Guard* backend = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
  c10::impl::registerDeviceGuard(c10::kPrivateUse1, new NotingGuard(*backend));
}

// The functions called since the last time, each once, in the order of their first calls. Valid until the next time.
extern "C" const char* take_notes() {
  static std::string names;
  names.clear();
  const std::lock_guard<std::mutex> lock(mutex);
  for (const std::string& name : called) {
    names += (names.empty() ? "" : ", ") + name;
  }
  called.clear();
  return names.c_str();
}
