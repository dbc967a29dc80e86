// Asks the hooks that no Python program reaches: a C++ program that links the backend, and knows nothing of Python.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>

#include <array>
#include <iostream>

// Runs what shall fail, and prints why.
template <class Call>
void print_error(const char* what, const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    std::cout << what << ": " << error.what_without_backtrace() << '\n';
  }
}

int main() {
  c10::register_privateuse1_backend("openreg");  // what torch.utils.rename_privateuse1_backend does
  std::cout << std::boolalpha;

  // LITERALINCLUDE START: hooks-cpp-availability
  const at::PrivateUse1HooksInterface& hooks = at::detail::getPrivateUse1Hooks();
  std::cout << "isBuilt: " << hooks.isBuilt() << '\n';
  std::cout << "isAvailable: " << hooks.isAvailable() << '\n';
  std::cout << "hasPrimaryContext(1) before the first use: " << hooks.hasPrimaryContext(1) << '\n';

  const at::Tensor ones = at::ones({4}, at::Device("openreg:1"));
  std::cout << "hasPrimaryContext(1) after the first use: " << hooks.hasPrimaryContext(1) << '\n';
  std::cout << "hasPrimaryContext(2): " << hooks.hasPrimaryContext(2) << '\n';
  // LITERALINCLUDE END: hooks-cpp-availability

  // LITERALINCLUDE START: hooks-cpp-from-blob
  // The kind of device is named, the device is not: at::from_blob asks the hook getDeviceFromPtr.
  const auto options = at::device(at::kPrivateUse1).dtype(at::kFloat);
  const at::Tensor view = at::from_blob(ones.data_ptr(), {4}, options);
  std::cout << "from_blob: " << view.device() << '\n';

  std::array<float, 4> host{};
  print_error("from_blob of host memory", [&] { at::from_blob(host.data(), {4}, options); });
  print_error("resize of somebody else's memory", [&] { hooks.resizePrivateUse1Bytes(view.storage(), 64); });
  print_error("a second registration",
              [&] { at::RegisterPrivateUse1HooksInterface(new at::PrivateUse1HooksInterface()); });
  // LITERALINCLUDE END: hooks-cpp-from-blob
}
