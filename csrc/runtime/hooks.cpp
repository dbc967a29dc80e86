// The hooks: what PyTorch asks of a backend where there is no operator to dispatch, and no guard to ask.
//
// Registered once when this library is loaded and called by at::Context, torch.Generator, pin_memory, storage
// resizing and autograd, on any thread. The object is never destroyed. Every hook is one line into the file of the
// concept it belongs to.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/generator.h"
#include "runtime/host_allocator.h"
#include "runtime/storage.h"

namespace openreg {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  // Must not throw, and must not start the driver.
  bool isBuilt() const override { return true; }

  // Must not throw. Asking for the number of devices starts the driver, as little as this one does then.
  bool isAvailable() const override { return device_count_or_zero() > 0; }

  // Called once per process, before the first use of the device from C++. Starting the driver here, and not while
  // the library is loaded, keeps `import torch` free of side effects and a later fork safe.
  void init() const override { static_cast<void>(device_count()); }

  // Whether work may be pending on the device. Autograd asks for every device at the start of each backward, so this
  // neither throws nor starts the driver.
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return is_initialized() && index >= 0 && index < device_count_or_zero();
  }

  c10::DeviceIndex deviceCount() const override { return device_count_or_zero(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_device(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return exchange_device(index); }

  // Like exchangeDevice, where the driver may avoid creating a context for a device that is only being restored.
  // This driver has no contexts to avoid.
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchange_device(index); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }

  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }

  // Which device holds the memory: at::from_blob asks when its caller names no device.
  c10::Device getDeviceFromPtr(void* data) const override {
    orPointerAttributes attributes{};
    check(orPointerGetAttributes(&attributes, data));
    TORCH_CHECK(attributes.type == orMemoryTypeDevice, "openreg: ", data,
                " is not memory of an openreg device: pass the device to from_blob");
    return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(attributes.device)};
  }

  at::Allocator* getPinnedMemoryAllocator() const override { return &host_allocator(); }

  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

// The registry takes ownership and keeps the object for the life of the process.
const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

}  // namespace
}  // namespace openreg
