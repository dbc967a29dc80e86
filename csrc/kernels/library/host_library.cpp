// Converts tensors for a library function (host_library.h): the part that does not depend on the operator. Called on
// the thread that queues the kernel.
#include "kernels/library/host_library.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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
void Dtypes::add_magnitude(const at::Scalar& number) {
  const auto value = number.isComplex() ? number.toComplexDouble() : c10::complex<double>(number.toDouble());
  if (value.imag() != 0) {
    largest_ = std::numeric_limits<double>::infinity();  // Most dtypes cannot hold it, so all calls with it wait.
  } else if (std::isfinite(value.real())) {
    largest_ = std::max(largest_, std::abs(value.real()));
  } else {
    has_infinity_ = true;
  }
}

// Up to which magnitude the dtype holds all numbers, at least roughly. The library rejects what is beyond.
double Dtypes::largest(at::ScalarType dtype) {
  switch (dtype) {
    case at::kShort:
      return std::numeric_limits<int16_t>::max();
    case at::kInt:
      return std::numeric_limits<int32_t>::max();
    case at::kLong:
      return double{int64_t{1} << 53};  // where a double begins to round
    case at::kHalf:
    case at::kComplexHalf:
      return std::numeric_limits<at::Half>::max();
    case at::kBFloat16:
      return std::numeric_limits<at::BFloat16>::max();
    case at::kFloat:
    case at::kComplexFloat:
      return std::numeric_limits<float>::max();
    case at::kBool:                   // Each number is true or false.
    case at::kDouble:
    case at::kComplexDouble:
    case at::ScalarType::Undefined:  // no tensor
      return std::numeric_limits<double>::max();
    default:
      return kHeldByAll;
  }
}

bool Dtypes::all_hold() const {
  for (uint64_t rest = seen_; rest != 0; rest &= rest - 1) {
    const auto dtype = static_cast<at::ScalarType>(std::countr_zero(rest));
    if (largest_ > largest(dtype)) return false;
    const bool holds_infinity = !c10::isIntegralType(dtype, /*includeBool=*/false) && largest(dtype) > kHeldByAll;
    if (has_infinity_ && !holds_infinity) return false;
  }
  return true;
}
// LITERALINCLUDE END: library-large

}  // namespace openreg
