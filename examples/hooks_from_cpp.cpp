// Calls the hooks that no Python program reaches, from a C++ program that links the backend, without Python.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>

#include <array>
#include <iostream>

namespace {

void print_contexts(const char* when, const at::PrivateUse1HooksInterface& hooks) {
  std::cout << "hasPrimaryContext of -1, 0, 1, 2 " << when << ':';
  for (c10::DeviceIndex index = -1; index <= 2; ++index) {
    std::cout << ' ' << hooks.hasPrimaryContext(index);
  }
  std::cout << '\n';
}

void print_pinned(const char* when) {
  const at::HostStats stats = at::getHostAllocator(at::kPrivateUse1)->get_stats();
  std::cout << "pinned " << when << ": " << stats.active_bytes.current << " bytes in " << stats.active_requests.current
            << " blocks\n";
}

// Makes a call that must fail, and prints the error.
template <class Call>
void print_error(const char* what, const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    std::cout << what << ": " << error.what_without_backtrace() << '\n';
  }
}

}  // namespace

int main() {
  c10::register_privateuse1_backend("openreg");  // what torch.utils.rename_privateuse1_backend does
  std::cout << std::boolalpha;

  // LITERALINCLUDE START: hooks-cpp-availability
  const at::PrivateUse1HooksInterface& hooks = at::detail::getPrivateUse1Hooks();
  std::array<float, 4> host{};
  std::cout << "isBuilt: " << hooks.isBuilt() << '\n';
  std::cout << "isAvailable: " << hooks.isAvailable() << '\n';
  std::cout << "isPinnedPtr: " << hooks.isPinnedPtr(host.data()) << '\n';
  print_contexts("before the first use", hooks);
  if (!hooks.isAvailable()) {
    return 0;
  }
  {
    const at::DataPtr block = at::getHostAllocator(at::kPrivateUse1)->allocate(sizeof(host));
    print_contexts("after it", hooks);
    print_pinned("while the block lives");
  }
  print_pinned("when it is gone");
  // LITERALINCLUDE END: hooks-cpp-availability

  // LITERALINCLUDE START: hooks-cpp-from-blob
  // The options have a device type but no index, so at::from_blob calls the hook getDeviceFromPtr.
  const at::Tensor ones = at::ones({4}, at::Device(at::kPrivateUse1, hooks.deviceCount() - 1));
  const auto options = at::device(at::kPrivateUse1).dtype(at::kFloat);
  const at::Tensor view = at::from_blob(ones.data_ptr(), ones.sizes(), options);
  std::cout << "from_blob: " << view.device() << '\n';

  print_error("from_blob of host memory", [&] { at::from_blob(host.data(), ones.sizes(), options); });
  print_error("resize of somebody else's memory", [&] { hooks.resizePrivateUse1Bytes(view.storage(), 64); });
  print_error("a second registration",
              [&] { at::RegisterPrivateUse1HooksInterface(new at::PrivateUse1HooksInterface()); });
  // LITERALINCLUDE END: hooks-cpp-from-blob
}
