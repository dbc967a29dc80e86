// Converts tensors for a library function (host_library.h): the part that does not depend on the operator. Called on
// the thread that queues the kernel.
#include "kernels/library/host_library.h"

#include <cmath>
#include <complex>

namespace openreg {

// LITERALINCLUDE START: library-tensors
namespace {

// A copy, since the caller may change a CPU tensor after the call.
at::Tensor copy_of(const at::Tensor& tensor) {
  at::Tensor copied = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    // It takes part in type promotion as a number, not as a tensor.
    copied.unsafeGetTensorImpl()->set_wrapped_number(true);  // NOT PROVEN: operators that take numbers end in stubs
  }
  return copied;
}

}  // namespace

std::vector<at::Tensor> KernelArguments::keep(const at::ITensorListRef& tensors) {
  std::vector<at::Tensor> kept;
  kept.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) kept.push_back(keep(tensor));
  return kept;
}

c10::List<std::optional<at::Tensor>> KernelArguments::keep(const c10::List<std::optional<at::Tensor>>& indices) {
  c10::List<std::optional<at::Tensor>> kept;
  for (const std::optional<at::Tensor>& index : indices) {
    kept.push_back(keep_tensor(index.value_or(at::Tensor()), true));
  }
  return kept;
}

// A CPU tensor may be given among device tensors as a number or as an index.
at::Tensor KernelArguments::keep_tensor(const at::Tensor& tensor, bool may_be_on_cpu) {
  if (!tensor.defined()) {
    return {};
  }
  bool shares = false;
  for (const auto& [given, view] : views_) {
    if (given == tensor.unsafeGetTensorImpl()) {
      return view;
    }
    // CPU tensors are copied, and share nothing with one another.
    shares = shares ||
             (tensor.device() == device_ && given->unsafe_storage().is_alias_of(tensor.storage()) && view.numel() > 0);
  }
  TORCH_CHECK(tensor.device() == device_ || (tensor.is_cpu() && may_be_on_cpu),
              "Expected all tensors to be on the same device, but found at least two devices, ", device_, " and ",
              tensor.device(), "!");
  views_.emplace_back(tensor.unsafeGetTensorImpl(), tensor.is_cpu() ? copy_of(tensor) : host_view(tensor));
  bytes_ += tensor.nbytes();
  if (shares && tensor.numel() > 0) {
    share_storage(tensor.storage());
  }
  return views_.back().second;
}

void KernelArguments::share_storage(const c10::Storage& of_device) {
  const size_t bytes = of_device.nbytes();
  const c10::Storage of_host(c10::Storage::use_byte_size_t(), bytes,
                             at::DataPtr(host_alias(of_device.mutable_data(), bytes), c10::kCPU));
  for (const auto& [given, view] : views_) {
    if (given->unsafe_storage().is_alias_of(of_device)) {
      view.unsafeGetTensorImpl()->set_storage_keep_dtype(of_host);
      view.unsafeGetTensorImpl()->set_storage_offset(given->storage_offset());
    }
  }
}
// LITERALINCLUDE END: library-tensors

// LITERALINCLUDE START: library-large
// A small number fits every dtype. Another may not, and the library then rejects it.
bool Dtypes::is_large(const at::Scalar& number) {
  return number.isComplex() ? std::abs(number.toComplexDouble()) > 127 || number.toComplexDouble().imag() != 0
                            : !(std::abs(number.toDouble()) <= 127);
}
// LITERALINCLUDE END: library-large

}  // namespace openreg
