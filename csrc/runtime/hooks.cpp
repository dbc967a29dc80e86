// The hooks: what PyTorch requires of a backend beyond operators and the device guard.
//
// Registered once when this library is loaded and called by at::Context, torch.Generator, pin_memory, storage
// resizing and autograd, on any thread. The object is never destroyed. Each hook forwards, in one line, to the file of
// its concept.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/generator.h"
#include "runtime/host_allocator.h"
#include "runtime/storage.h"

namespace openreg {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  // LITERALINCLUDE START: hooks-init
  // Called once per process: by torch.openreg's lazy initialization, or by at::Context before a hook
  // that needs the device. Starting the driver here, and not while the library is loaded, keeps
  // `import torch` free of side effects and a later fork safe.
  void init() const override { initialize(); }
  // LITERALINCLUDE END: hooks-init

  // LITERALINCLUDE START: hooks-primary-context
  // Whether the device may hold work or memory. Autograd calls this for every device at the start of a backward pass
  // that reaches one, so it neither throws nor initializes.
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return is_initialized() && index >= 0 && index < device_count_or_zero();
  }
  // LITERALINCLUDE END: hooks-primary-context

  // LITERALINCLUDE START: hooks-generators
  // The generator that all users of a device share. The reference stays valid for the life of the process.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }

  // A generator that belongs to the caller alone: torch.Generator(device="openreg:1").
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }
  // LITERALINCLUDE END: hooks-generators

  // LITERALINCLUDE START: hooks-device-from-pointer
  // The device that holds the memory, for at::from_blob when its caller names no device.
  c10::Device getDeviceFromPtr(void* data) const override {
    orPointerAttributes attributes{};
    check(orPointerGetAttributes(&attributes, data));
    TORCH_CHECK(attributes.type == orMemoryTypeDevice, "openreg: ", data,
                " is not memory of a device of openreg: pass the device to from_blob");
    return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(attributes.device)};
  }
  // LITERALINCLUDE END: hooks-device-from-pointer

  // LITERALINCLUDE START: hooks-pinned-memory
  // For Tensor.pin_memory(), torch.empty(pin_memory=True) and DataLoader(pin_memory=True).
  at::Allocator* getPinnedMemoryAllocator() const override {
    // Raises in a forked child, where the cache's blocks belong to the parent, and its locks may be held forever.
    if (is_in_bad_fork()) static_cast<void>(device_count());
    return &host_allocator();
  }

  // For Tensor.is_pinned(). Accepts any pointer, even one that the driver has never seen.
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  // LITERALINCLUDE END: hooks-pinned-memory

  // LITERALINCLUDE START: hooks-availability
  // Must not throw, and must not start the driver.
  bool isBuilt() const override { return true; }

  // Must not throw, and must not change what hasPrimaryContext answers.
  bool isAvailable() const override { return device_count_or_zero() > 0; }
  // LITERALINCLUDE END: hooks-availability

  // LITERALINCLUDE START: hooks-current-device
  c10::DeviceIndex deviceCount() const override { return device_count_or_zero(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_device(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return exchange_device(index); }

  // Like exchangeDevice, where the driver may avoid creating a context for a device that is only
  // being restored. This driver has no contexts to avoid.
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchange_device(index); }
  // LITERALINCLUDE END: hooks-current-device

  // LITERALINCLUDE START: hooks-resize-storage
  // For UntypedStorage.resize_() and FSDP, which frees and restores its parameters with it.
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
  // LITERALINCLUDE END: hooks-resize-storage
};

// LITERALINCLUDE START: hooks-registration
// Runs while libtorch_openreg.so is loaded. PyTorch keeps the pointer for the life of the process, and
// hooks may be called while it ends, so the object is never destroyed.
const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();
// LITERALINCLUDE END: hooks-registration

}  // namespace
}  // namespace openreg
