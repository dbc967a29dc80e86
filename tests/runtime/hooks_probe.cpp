// Calls hooks from C++, for test_hooks.py: some of them have no other caller, and PyTorch's default implementations
// cannot be reached once a backend has registered its hooks. Compiled by the test into a library that ctypes loads.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Storage.h>

#include <functional>
#include <map>
#include <sstream>
#include <string>

namespace {

// The hooks of a backend that overrides nothing.
struct Bare final : at::PrivateUse1HooksInterface {};

const at::PrivateUse1HooksInterface& hooks_of(const std::string& owner) {
  static const auto* const bare = new Bare();
  return owner == "bare" ? *bare : at::detail::getPrivateUse1Hooks();
}

std::string text(bool value) { return value ? "true" : "false"; }

std::string call(const at::PrivateUse1HooksInterface& hooks, const std::string& name, int64_t argument) {
  const auto index = static_cast<c10::DeviceIndex>(argument);
  void* const pointer = reinterpret_cast<void*>(argument);
  const auto done = [](auto&& action) {
    action();
    return std::string("done");
  };
  const std::map<std::string, std::function<std::string()>> calls{
      {"init", [&] { return done([&] { hooks.init(); }); }},
      {"hasPrimaryContext", [&] { return text(hooks.hasPrimaryContext(index)); }},
      {"getDefaultGenerator", [&] { return hooks.getDefaultGenerator(index).device().str(); }},
      {"getNewGenerator", [&] { return hooks.getNewGenerator(index).device().str(); }},
      {"getDeviceFromPtr", [&] { return hooks.getDeviceFromPtr(pointer).str(); }},
      {"getPinnedMemoryAllocator", [&] { return hooks.getPinnedMemoryAllocator()->allocate(8).device().str(); }},
      {"isPinnedPtr", [&] { return text(hooks.isPinnedPtr(pointer)); }},
      {"isBuilt", [&] { return text(hooks.isBuilt()); }},
      {"isAvailable", [&] { return text(hooks.isAvailable()); }},
      {"deviceCount", [&] { return std::to_string(hooks.deviceCount()); }},
      {"getCurrentDevice", [&] { return std::to_string(hooks.getCurrentDevice()); }},
      {"setCurrentDevice", [&] { return done([&] { hooks.setCurrentDevice(index); }); }},
      {"exchangeDevice", [&] { return std::to_string(hooks.exchangeDevice(index)); }},
      {"maybeExchangeDevice", [&] { return std::to_string(hooks.maybeExchangeDevice(index)); }},
      {"resizePrivateUse1Bytes",
       [&] { return done([&] { hooks.resizePrivateUse1Bytes(c10::Storage(), static_cast<size_t>(argument)); }); }},
      // Users of hooks in PyTorch.
      {"from_blob",
       [&] { return at::for_blob(pointer, {2}).options(at::device(at::kPrivateUse1)).make_tensor().device().str(); }},
      {"register", [&] { return done([&] { at::RegisterPrivateUse1HooksInterface(new Bare()); }); }},
  };
  return calls.at(name)();
}

}  // namespace

// The result of hook `name` as text, or the kind and text of its error. `owner` is "bare" or "registered". The text is
// valid until the thread's next call.
extern "C" const char* probe(const char* owner, const char* name, int64_t argument) {
  thread_local std::string result;
  try {
    result = call(hooks_of(owner), name, argument);
  } catch (const c10::NotImplementedError& error) {
    result = std::string("NotImplementedError: ") + error.what_without_backtrace();
  } catch (const c10::Error& error) {
    result = std::string("Error: ") + error.what_without_backtrace();
  } catch (const std::exception& error) {
    result = std::string("exception: ") + error.what();
  }
  return result.c_str();
}
