// Resizes and rebinds tensors: resize_ and the overloads of set_. They change which memory a tensor refers to, and grow
// that memory if it is too small. Called on any thread, with or without the GIL.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <c10/util/DimVector.h>
#include <c10/util/safe_numerics.h>
#include <torch/library.h>

#include <algorithm>

#include "runtime/storage.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: resize-geometry
// Sets the sizes and strides of a tensor, and grows its storage to the bytes that they reach: none for a tensor without
// elements, whatever its offset is.
void set_geometry(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride, int64_t offset) {
  const size_t bytes = at::detail::computeStorageNbytes(size, stride, self.itemsize(), offset);
  if (bytes > self.storage().nbytes()) {
    resize_storage(*self.storage().unsafeGetStorageImpl(), bytes);
  }
  at::native::setStrided(self, size, stride, offset);
}
// LITERALINCLUDE END: resize-geometry

// LITERALINCLUDE START: resize-operator
// Sizes come from the user, so their product may overflow. A size of 0 counts as 1 in the strides of earlier
// dimensions.
at::DimVector checked_strides(at::IntArrayRef size) {
  at::DimVector strides(size.size());
  int64_t stride = 1;
  for (size_t dim = size.size(); dim-- > 0;) {
    strides[dim] = stride;
    TORCH_CHECK(!c10::mul_overflows(stride, std::max<int64_t>(size[dim], 1), &stride), "Stride calculation overflowed");
  }
  return strides;
}

// schema: aten::resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)
const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  at::detail::check_size_nonnegative(size);
  const auto bytes_before = static_cast<int64_t>(self.storage().nbytes());
  if (self.sizes() != size) {
    set_geometry(self, size, checked_strides(size), self.storage_offset());
  }
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "openreg: resize_ cannot preserve a memory format");
    self.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  const at::Context& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_resize_deterministic_(self, bytes_before);
  }
  return self;
}
// LITERALINCLUDE END: resize-operator

// LITERALINCLUDE START: resize-set
// schema: aten::set_.source_Storage_storage_offset(Tensor(a!) self, Storage source, SymInt storage_offset,
//         SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)
at::Tensor& set_source_storage_offset(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                                      at::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  if (stride.empty() && self.sizes() == size) {  // Keeps its strides, as on the CPU.
    set_geometry(self, size, at::DimVector(self.strides()), offset);
  } else {
    set_geometry(self, size, stride.empty() ? checked_strides(size) : at::DimVector(stride), offset);
  }
  return self;
}

// schema: aten::set_(Tensor(a!) self) -> Tensor(a!)
at::Tensor& set_empty(at::Tensor& self) {
  const at::Tensor empty = at::empty({0}, self.options());
  return set_source_storage_offset(self, empty.storage(), 0, {0}, {1});
}
// LITERALINCLUDE END: resize-set

// LITERALINCLUDE START: resize-registration
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("resize_", resize_);
  m.impl("set_", set_empty);
  m.impl("set_.source_Storage_storage_offset", set_source_storage_offset);
  // These two only compute the arguments of the one above.
  m.impl("set_.source_Storage", at::native::set_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  // Compares addresses, which would always differ between the fallback's copies.
  m.impl("is_set_to", at::native::is_set_to);
}
// LITERALINCLUDE END: resize-registration

}  // namespace
}  // namespace openreg
