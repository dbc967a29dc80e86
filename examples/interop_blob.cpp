// Device memory that C++ code owns, wrapped in a tensor without a copy: at::for_blob, with a deleter.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <iostream>

namespace {

template <class Function>
Function driver(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

int main() {
  c10::register_privateuse1_backend("openreg");  // what torch.utils.rename_privateuse1_backend does
  const c10::Device device(c10::kPrivateUse1, 1);

  // LITERALINCLUDE START: interop-blob
  void* memory = nullptr;
  {
    const c10::DeviceGuard guard(device);
    if (driver<int (*)(void**, size_t)>("orMalloc")(&memory, 6 * sizeof(float)) != 0) return 1;
  }
  at::Tensor x = at::for_blob(memory, {2, 3})
                     .options(at::TensorOptions().dtype(at::kFloat).device(device))
                     .target_device(device)
                     .deleter([](void* pointer) {
                       const int error = driver<int (*)(void*)>("orFree")(pointer);  // waits for queued readers
                       std::cout << "the deleter ran, error " << error << '\n';
                     })
                     .make_tensor();
  x.fill_(2);
  const at::Tensor row = x.select(0, 1);
  x.reset();
  std::cout << row.device() << ", sum " << row.sum().item<float>() << '\n';
  // LITERALINCLUDE END: interop-blob
}
