// Launches kernels that a compiler generated as C++ for the host. Called on any thread, with or without the GIL; the
// kernel runs on the device's stream.
#include "aten/compiled_kernel.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kernels/launch.h"
#include "runtime/storage.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: compiled-kernel-arguments
// The arguments of a queued kernel: addresses and numbers, and copies of the host's scalars (see Note [What a kernel
// holds]).
class CompiledArguments {
 public:
  explicit CompiledArguments(const CompiledCall& call) {
    arguments_.reserve(call.arguments.size());
    for (const CompiledValue& value : call.arguments) {
      arguments_.push_back(argument(value, call));
    }
  }

  const CompiledArgument* data() const { return arguments_.data(); }
  size_t bytes() const { return bytes_; }

 private:
  CompiledArgument argument(const CompiledValue& value, const CompiledCall& call) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return {.integer = *integer};
    if (const auto* real = std::get_if<double>(&value)) return {.real = *real};
    const auto& tensor = std::get<at::Tensor>(value);
    return {.pointer = tensor.is_cpu() ? host_scalar(tensor, call) : device_memory(tensor, call)};
  }

  // A strided kernel may read anywhere in the storage, so the whole storage is made accessible.
  void* device_memory(const at::Tensor& tensor, const CompiledCall& call) {
    TORCH_CHECK(tensor.device() == c10::Device(c10::kPrivateUse1, call.device), "openreg: the generated kernel '",
                call.name, "' runs on openreg:", static_cast<int>(call.device), " but got a tensor on ",
                tensor.device(), "; move it to the kernel's device");
    if (tensor.numel() == 0) return nullptr;
    check_has_memory(tensor);
    const size_t held = tensor.storage().nbytes();
    const size_t offset = static_cast<size_t>(tensor.storage_offset()) * tensor.itemsize();
    const size_t needed = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
    TORCH_CHECK(offset + needed <= held, "openreg: the generated kernel '", call.name, "' got a tensor that needs ",
                offset + needed, " bytes of its storage, which was resized to ", held);
    bytes_ += tensor.nbytes();
    return host_alias(static_cast<char*>(tensor.data_ptr()), held - offset);
  }

  // The host may change or free a scalar before the kernel runs, so the launch copies it.
  void* host_scalar(const at::Tensor& tensor, const CompiledCall& call) {
    TORCH_CHECK(tensor.numel() == 1, "openreg: the generated kernel '", call.name, "' got a CPU tensor of ",
                tensor.numel(),
                " elements; only one element can be passed from the host: move the tensor to the "
                "device");
    auto& copy = host_scalars_.emplace_back(std::make_unique<std::byte[]>(tensor.itemsize()));
    std::memcpy(copy.get(), tensor.const_data_ptr(), tensor.itemsize());
    return copy.get();
  }

  std::vector<CompiledArgument> arguments_;
  std::vector<std::unique_ptr<std::byte[]>> host_scalars_;
  size_t bytes_ = 0;
};
// LITERALINCLUDE END: compiled-kernel-arguments

// LITERALINCLUDE START: compiled-kernel-launch
// The driver keeps the address of a kernel's name, and a profile reads it after the program has dropped the kernel.
const char* kept_name(const std::string& name) {
  static std::mutex mutex;
  static auto* const names = new std::unordered_set<std::string>();  // never destroyed: the driver outlives statics
  const std::lock_guard<std::mutex> lock(mutex);
  return names->insert(name).first->c_str();
}

void launch_host_code(const CompiledCall& call) {
  CompiledArguments arguments(call);
  const size_t bytes = arguments.bytes();
  launch(kept_name(call.name), call.device, bytes,
         [entry = call.entry, arguments = std::move(arguments)] { entry(arguments.data()); });
}

[[maybe_unused]] const bool is_registered = (set_compiled_launcher(&launch_host_code), true);
// LITERALINCLUDE END: compiled-kernel-launch

}  // namespace
}  // namespace openreg
