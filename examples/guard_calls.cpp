// A device guard in front of the backend's own: it records which of its members are called, forwards the calls, and can
// leave a member out, so that PyTorch's own body runs instead. A library for guard_calls.py.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <mutex>
#include <set>
#include <string>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using Interface = c10::impl::DeviceGuardImplInterface;

// Autograd calls from threads of its own.
std::mutex mutex;
std::set<std::string> called;
std::string left_out;

void note(const char* member) {
  const std::lock_guard<std::mutex> lock(mutex);
  called.insert(member);
}

bool has(const char* member) {
  note(member);
  const std::lock_guard<std::mutex> lock(mutex);
  return left_out != member;
}

// The pure virtual members, which no backend can leave out.
struct Telling : Interface {
  c10::DeviceType type() const override { return note("type"), guard_.type(); }
  Device exchangeDevice(Device device) const override { return note("exchangeDevice"), guard_.exchangeDevice(device); }
  Device getDevice() const override { return note("getDevice"), guard_.getDevice(); }
  void setDevice(Device device) const override { note("setDevice"), guard_.setDevice(device); }
  void uncheckedSetDevice(Device device) const noexcept override {
    note("uncheckedSetDevice"), guard_.uncheckedSetDevice(device);
  }
  Stream getStream(Device device) const override { return note("getStream"), guard_.getStream(device); }
  Stream exchangeStream(Stream stream) const override { return note("exchangeStream"), guard_.exchangeStream(stream); }
  DeviceIndex deviceCount() const noexcept override { return note("deviceCount"), guard_.deviceCount(); }

  // The guard that was registered before.
  const Interface& guard_ = *c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
};

// The members that have a body in PyTorch.
struct Choosing final : Telling {
  Stream getDefaultStream(Device device) const override {
    return has("getDefaultStream") ? guard_.getDefaultStream(device) : Interface::getDefaultStream(device);
  }
  // LITERALINCLUDE START: guard-calls-choosing
  Stream getStreamFromGlobalPool(Device device, bool high) const override {
    return has("getStreamFromGlobalPool") ? guard_.getStreamFromGlobalPool(device, high)
                                          : Interface::getStreamFromGlobalPool(device, high);
  }
  Stream getNewStream(Device device, int priority) const override {
    return has("getNewStream") ? guard_.getNewStream(device, priority) : Interface::getNewStream(device, priority);
  }
  // LITERALINCLUDE END: guard-calls-choosing
  void* getStreamNativeHandle(const Stream stream) const override {
    return has("getStreamNativeHandle") ? guard_.getStreamNativeHandle(stream)
                                        : Interface::getStreamNativeHandle(stream);
  }
  bool queryStream(const Stream& stream) const override {
    return has("queryStream") ? guard_.queryStream(stream) : Interface::queryStream(stream);
  }
  void synchronizeStream(const Stream& stream) const override {
    has("synchronizeStream") ? guard_.synchronizeStream(stream) : Interface::synchronizeStream(stream);
  }
  bool isStreamCapturing(const Stream& stream) const override {
    return has("isStreamCapturing") ? guard_.isStreamCapturing(stream) : Interface::isStreamCapturing(stream);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
    has("recordDataPtrOnStream") ? guard_.recordDataPtrOnStream(data, stream)
                                 : Interface::recordDataPtrOnStream(data, stream);
  }
  void record(void** event, const Stream& stream, const DeviceIndex index, const c10::EventFlag flag) const override {
    has("record") ? guard_.record(event, stream, index, flag) : Interface::record(event, stream, index, flag);
  }
  void block(void* event, const Stream& stream) const override {
    has("block") ? guard_.block(event, stream) : Interface::block(event, stream);
  }
  bool queryEvent(void* event) const override {
    return has("queryEvent") ? guard_.queryEvent(event) : Interface::queryEvent(event);
  }
  void synchronizeEvent(void* event) const override {
    has("synchronizeEvent") ? guard_.synchronizeEvent(event) : Interface::synchronizeEvent(event);
  }
  double elapsedTime(void* start, void* end, const DeviceIndex index) const override {
    return has("elapsedTime") ? guard_.elapsedTime(start, end, index) : Interface::elapsedTime(start, end, index);
  }
  void destroyEvent(void* event, const DeviceIndex index) const noexcept override {
    has("destroyEvent") ? guard_.destroyEvent(event, index) : Interface::destroyEvent(event, index);
  }
  c10::DeviceCapability getDeviceCapability(Device device) const override {
    return has("getDeviceCapability") ? guard_.getDeviceCapability(device) : Interface::getDeviceCapability(device);
  }
  void synchronizeDevice(const DeviceIndex index) const override {
    has("synchronizeDevice") ? guard_.synchronizeDevice(index) : Interface::synchronizeDevice(index);
  }
};

}  // namespace

// The functions that guard_calls.py calls.
extern "C" {

void stand_before_the_guard() { c10::impl::registerDeviceGuard(c10::kPrivateUse1, new Choosing()); }

void leave_out(const char* member) {
  const std::lock_guard<std::mutex> lock(mutex);
  left_out = member;
}

// The names of the members called since the previous call of this function, valid until the next one.
const char* calls() {
  static std::string names;
  const std::lock_guard<std::mutex> lock(mutex);
  names.clear();
  for (const std::string& name : called) {
    names += (names.empty() ? "" : ", ") + name;
  }
  called.clear();
  return names.c_str();
}
}
