// Deleters that warn under a warning handler that throws: device memory that is freed twice, and pinned memory that was
// used on a stream that has been destroyed.
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <iostream>
#include <stdexcept>

namespace {

struct ThrowingHandler final : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    std::cout << "warning: " << warning.msg() << '\n';
    throw std::runtime_error("this warning is an error");
  }
};

template <class Function>
Function driver(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

int main() {
  c10::register_privateuse1_backend("openreg");
  ThrowingHandler handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);

  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(c10::kPrivateUse1);
  void* const block = allocator->raw_allocate(1000);
  allocator->raw_deallocate(block);
  allocator->raw_deallocate(block);

  void* stream = nullptr;
  if (driver<int (*)(void**)>("orStreamCreate")(&stream) != 0) return 1;
  at::HostAllocator* const host = at::getHostAllocator(c10::kPrivateUse1);
  c10::DataPtr pinned = host->allocate(1000);
  const c10::Device device(c10::kPrivateUse1, 0);
  host->record_event(pinned.get(), pinned.get_context(),
                     c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(stream)));
  if (driver<int (*)(void*)>("orStreamDestroy")(stream) != 0) return 1;
  pinned.clear();
  std::cout << "no exception has left a deleter\n";
}
