// The allocator of the device, and the operators that only create tensors over its memory, without using the device.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>

#include "glue.h"

namespace remote {
namespace {

// LITERALINCLUDE START: remote-allocator
// An address is a number that Python hands out. It points to nothing on the host.
struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex index = current_device();
    void* const address = reinterpret_cast<void*>(ask<uintptr_t>("malloc", bytes, static_cast<int>(index)));
    return {address, address, &free, {kRemote, index}};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    ask("copy_bytes", reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes);
  }
  static void free(void* address) { tell("free", reinterpret_cast<uintptr_t>(address)); }
};

Allocator allocator;
REGISTER_ALLOCATOR(kRemote, &allocator)
// LITERALINCLUDE END: remote-allocator

// LITERALINCLUDE START: remote-factories
constexpr c10::DispatchKeySet kKeys{c10::DispatchKey::PrivateUse1};

void refuse_pinning(std::optional<bool> pin_memory) {
  TORCH_CHECK_VALUE(!pin_memory.value_or(false),
                    "remote: only CPU tensors can be pinned: leave pin_memory out, or device");
}

// schema: aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
//         bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> format) {
  refuse_pinning(pin_memory);
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &allocator, kKeys, c10::dtype_or_default(dtype), format);
}

// schema: aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None,
//         Device? device=None, bool? pin_memory=None) -> Tensor
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool> pin_memory) {
  refuse_pinning(pin_memory);
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &allocator, kKeys, c10::dtype_or_default(dtype));
}
// LITERALINCLUDE END: remote-factories

// LITERALINCLUDE START: remote-set
// schema: aten::set_.source_Storage_storage_offset(Tensor(a!) self, Storage source, SymInt storage_offset,
//         SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)
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

// schema: aten::set_(Tensor(a!) self) -> Tensor(a!)
at::Tensor& set_nothing(at::Tensor& self) {
  return set_storage(self, at::empty({0}, self.options()).storage(), 0, {0}, {1});
}
// LITERALINCLUDE END: remote-set

// LITERALINCLUDE START: remote-metadata
// Views and the last two only change metadata, which PyTorch's functions for the CPU do for any device; set_ may also
// allocate or grow a storage.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("set_", set_nothing);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", at::native::set_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
}
// LITERALINCLUDE END: remote-metadata

}  // namespace

// LITERALINCLUDE START: remote-storage-resize
void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr moved = allocator.allocate(bytes);
  allocator.copy_data(moved.get(), storage.data(), std::min(bytes, storage.nbytes()));
  storage.set_data_ptr_noswap(std::move(moved));
  storage.set_nbytes(bytes);
}
// LITERALINCLUDE END: remote-storage-resize

}  // namespace remote
