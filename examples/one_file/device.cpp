// A device in one file. Its memory is the host's, it has one stream, and every operator that is not registered below
// runs on the CPU: enough for tensors, autograd and a network that learns. What is missing raises an error or is slow.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <algorithm>

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

// LITERALINCLUDE START: one-file-allocator
// Memory. Your driver's malloc, free and memcpy belong here.
struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* const data = c10::alloc_cpu(bytes);
    return {data, data, c10::free_cpu, {kType, 0}};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

Allocator allocator;
REGISTER_ALLOCATOR(kType, &allocator)
// LITERALINCLUDE END: one-file-allocator

// LITERALINCLUDE START: one-file-guard
// Devices and streams. With one of each and no asynchronous work, there is nothing to switch or to wait for.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Device getDevice() const override { return {kType, 0}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() <= 0, device, " does not exist: there is one device, number 0");
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    setDevice(device);
    return getDevice();
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}

  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, getDevice()); }
  c10::Stream exchangeStream(c10::Stream) const override { return getStream(getDevice()); }
  void synchronizeDevice(c10::DeviceIndex) const override {}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)
// LITERALINCLUDE END: one-file-guard

// LITERALINCLUDE START: one-file-hooks
// What else PyTorch needs to know about the device type.
void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  c10::DataPtr moved = allocator.allocate(bytes);
  allocator.copy_data(moved.get(), storage.data(), std::min(bytes, storage.nbytes()));
  storage.set_data_ptr_noswap(std::move(moved));
  storage.set_nbytes(bytes);
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);  // PyTorch keeps them until the process ends.
  return true;
}();
// LITERALINCLUDE END: one-file-hooks

// LITERALINCLUDE START: one-file-factories
// New tensors: all other factories (zeros, randn, clone ...) call these two operators.
constexpr c10::DispatchKeySet kKeys{c10::DispatchKey::PrivateUse1};

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &allocator, kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &allocator, kKeys, c10::dtype_or_default(dtype));
}
// LITERALINCLUDE END: one-file-factories

// LITERALINCLUDE START: one-file-copies
// Copies from and to the host and within the device. The host can read this memory, so a CPU tensor over the same bytes
// stands in for the device tensor.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) {
    return tensor;
  }
  const auto options = tensor.options().device(at::kCPU);
  const at::Tensor host = at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
  host._set_conj(tensor.is_conj());
  host._set_neg(tensor.is_neg());
  return host;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor& tensor) { return on_host(tensor).item(); }
// LITERALINCLUDE END: one-file-copies

// LITERALINCLUDE START: one-file-resize
// Gives a tensor another size or other storage. Storage that is too small grows.
at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef given) {
  at::native::checkSetStorage(self, std::move(source), offset, size, given);
  const at::DimVector stride = given.empty() ? c10::contiguous_strides(size) : at::DimVector(given);
  const size_t bytes = at::detail::computeStorageNbytes(size, stride, self.itemsize(), offset);
  if (bytes > self.storage().nbytes()) {
    resize_storage(*self.storage().unsafeGetStorageImpl(), bytes);
  }
  at::native::setStrided(self, size, at::IntArrayRef(stride), offset);
  return self;
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  if (self.sizes() != size) {
    at::Tensor changed = self;
    set_storage(changed, self.storage(), self.storage_offset(), size, {});
  }
  if (format.has_value()) {
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return self;
}
// LITERALINCLUDE END: one-file-resize

// LITERALINCLUDE START: one-file-batch-norm
// The fallback copies back what a schema declares as written. This operator's schema hides that it writes the running
// statistics; that of the one called here declares it.
using Optional = std::optional<at::Tensor>;

auto batch_norm(const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
                const Optional& running_var, bool training, double momentum, double eps) {
  at::Tensor mean = running_mean.value_or(at::Tensor());
  at::Tensor var = running_var.value_or(at::Tensor());
  return mean.defined()
             ? at::_native_batch_norm_legit(input, weight, bias, mean, var, training, momentum, eps)
             : at::_native_batch_norm_legit(input, weight, bias, training, momentum, eps);  // there are no statistics
}
// LITERALINCLUDE END: one-file-batch-norm

// LITERALINCLUDE START: one-file-registrations
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", at::native::set_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("is_set_to", at::native::is_set_to);
  m.impl("native_batch_norm", batch_norm);
  // Views. PyTorch's own functions compute sizes and strides for any device.
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
}

// A copy handles the lazy conjugate and negative bits itself. PyTorch would resolve them by another copy, endlessly.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

// All other operators: arguments are copied to the CPU, and results back.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>()); }
// LITERALINCLUDE END: one-file-registrations

}  // namespace
