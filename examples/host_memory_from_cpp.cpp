// What only C++ code can do with the pinned-memory allocator: clones, blocks by address, pools for captured graphs.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <cstring>
#include <iostream>

namespace {

struct PrintWarnings final : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    std::cout << "warning: " << warning.msg().substr(0, 91) << "...\n";
  }
};

}  // namespace

int main() {
  c10::register_privateuse1_backend("openreg");  // what torch.utils.rename_privateuse1_backend does
  PrintWarnings handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  std::cout << std::boolalpha;

  // LITERALINCLUDE START: host-memory-cpp
  std::cout << "pinned, before the first use: " << at::detail::getPrivateUse1Hooks().isPinnedPtr(&handler) << '\n';
  at::HostAllocator* const allocator = at::getHostAllocator(at::kPrivateUse1);
  at::DataPtr block = allocator->allocate(1000);
  std::memcpy(block.mutable_get(), "pinned", 7);
  const at::DataPtr copy = allocator->clone(block.get(), 7);
  std::cout << "device: " << block.device() << ", clone: " << static_cast<const char*>(copy.get()) << '\n';
  std::cout << "context is the address: " << (block.get_context() == block.get()) << '\n';

  const c10::Stream stream(c10::Stream::DEFAULT, c10::Device(c10::kPrivateUse1, 0));
  std::cout << "record_event: by context " << allocator->record_event(nullptr, block.get_context(), stream)
            << ", by address " << allocator->record_event(block.mutable_get(), nullptr, stream) << ", of the host's "
            << allocator->record_event(&handler, nullptr, stream) << '\n';

  allocator->begin_allocate_to_pool({7, 0}, [](const c10::Stream& current) { return current.id() == 0; });
  const at::DataPtr of_pool = allocator->allocate(1000);
  allocator->end_allocate_to_pool({7, 0});
  allocator->release_pool({7, 0});
  std::cout << "blocks: " << allocator->get_stats().allocations.current << '\n';
  // LITERALINCLUDE END: host-memory-cpp
}
