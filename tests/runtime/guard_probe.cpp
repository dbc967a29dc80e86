// Calls each member of the device guard from C++, for test_guard.py: some have no caller in Python, and PyTorch's
// default implementations cannot be reached once a backend has registered its guard. Compiled by the test into a
// library that ctypes loads.
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

using Interface = c10::impl::DeviceGuardImplInterface;

// The guard of a backend that overrides only what it must.
struct Bare final : Interface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return c10::Device(c10::kPrivateUse1, 0); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

// Records warnings, and throws them as exceptions.
struct Strict final : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    kept += "; warning: " + warning.msg();
    throw std::runtime_error(warning.msg());
  }
  std::string kept;
};

const Interface& guard_of(const std::string& owner) {
  static const auto* const bare = new Bare();
  return owner == "bare" ? *bare : *c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
}

template <class Value>
std::string text(const Value& value) {
  std::ostringstream stream;
  stream << std::boolalpha << value;
  return stream.str();
}

std::string describe(const c10::Stream& stream) { return stream.device().str() + " " + std::to_string(stream.id()); }

size_t count(const c10::DeviceCapability& capability) {
  size_t types = 0;
  capability.forEachSupportedScalarType([&types](c10::ScalarType) { ++types; });
  return types;
}

// `number` is the id of a stream, a priority, or an event.
std::string call(const Interface& guard, const std::string& name, int64_t index, int64_t number) {
  const c10::Device device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index));
  const c10::Stream stream(c10::Stream::UNSAFE, device, number);
  void* event = reinterpret_cast<void*>(number);
  const auto done = [](auto&& action) {
    action();
    return std::string("done");
  };
  const auto recorded = [&](c10::EventFlag flag) {
    void* made = nullptr;
    guard.record(&made, c10::Stream(c10::Stream::DEFAULT, device), device.index(), flag);
    return made;
  };
  const std::map<std::string, std::function<std::string()>> calls{
      {"type", [&] { return text(guard.type()); }},
      {"exchangeDevice", [&] { return guard.exchangeDevice(device).str(); }},
      {"getDevice", [&] { return guard.getDevice().str(); }},
      {"setDevice", [&] { return done([&] { guard.setDevice(device); }); }},
      {"uncheckedSetDevice", [&] { return done([&] { guard.uncheckedSetDevice(device); }); }},
      {"deviceCount", [&] { return std::to_string(guard.deviceCount()); }},
      {"synchronizeDevice", [&] { return done([&] { guard.synchronizeDevice(device.index()); }); }},
      {"getDeviceCapability", [&] { return std::to_string(count(guard.getDeviceCapability(device))); }},
      {"getStream", [&] { return describe(guard.getStream(device)); }},
      {"getDefaultStream", [&] { return describe(guard.getDefaultStream(device)); }},
      {"getNewStream", [&] { return describe(guard.getNewStream(device, static_cast<int>(number))); }},
      {"getStreamFromGlobalPool", [&] { return describe(guard.getStreamFromGlobalPool(device, number != 0)); }},
      {"exchangeStream", [&] { return describe(guard.exchangeStream(stream)); }},
      {"getStreamNativeHandle",
       [&] { return std::to_string(reinterpret_cast<uintptr_t>(guard.getStreamNativeHandle(stream))); }},
      {"queryStream", [&] { return text(guard.queryStream(stream)); }},
      {"synchronizeStream", [&] { return done([&] { guard.synchronizeStream(stream); }); }},
      {"isStreamCapturing", [&] { return text(guard.isStreamCapturing(stream)); }},
      {"recordDataPtrOnStream",
       [&] { return done([&] { guard.recordDataPtrOnStream(c10::DataPtr(nullptr, device), stream); }); }},
      {"record",
       [&] { return std::to_string(reinterpret_cast<uintptr_t>(recorded(c10::EventFlag::BACKEND_DEFAULT))); }},
      {"block", [&] { return done([&] { guard.block(event, c10::Stream(c10::Stream::DEFAULT, device)); }); }},
      {"queryEvent", [&] { return text(guard.queryEvent(event)); }},
      {"synchronizeEvent", [&] { return done([&] { guard.synchronizeEvent(event); }); }},
      {"elapsedTime",
       [&] {
         void* end = recorded(c10::EventFlag::BACKEND_DEFAULT);
         guard.synchronizeEvent(end);
         const double time = guard.elapsedTime(event, end, device.index());
         return text(time > 0);
       }},
      {"destroyEvent", [&] { return done([&] { guard.destroyEvent(event, device.index()); }); }},
      // Users of the guard.
      {"DeviceGuard",
       [&] {
         const c10::DeviceGuard scope(device);
         return scope.original_device().str() + " " + guard.getDevice().str();
       }},
      {"OptionalDeviceGuard",
       [&] {
         c10::OptionalDeviceGuard scope;
         const bool before = scope.original_device().has_value();
         scope.reset_device(device);
         return text(before) + " " + guard.getDevice().str();
       }},
  };
  return calls.at(name)();
}

}  // namespace

// The result of a member, or its error, as text, followed by the warnings. `owner` is "bare" or "registered". The text
// is valid until the thread's next call.
extern "C" const char* probe(const char* owner, const char* name, int64_t index, int64_t number) {
  thread_local std::string answer;
  Strict handler;
  const c10::WarningUtils::WarningHandlerGuard strict(&handler);
  try {
    answer = call(guard_of(owner), name, index, number);
  } catch (const c10::Error& error) {
    answer = error.what_without_backtrace();
  }
  answer += handler.kept;
  return answer.c_str();
}
