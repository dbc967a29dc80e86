// A backend's own storage class: which calls create its objects, and what operators must do to create them too.
// Compiled, loaded and used by storage_class.py.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>
#include <torch/library.h>

#include <atomic>

namespace {

// LITERALINCLUDE START: storage-class-own
std::atomic<int64_t> made{0};
std::atomic<int64_t> alive{0};

// What a backend's class would add: the layout of the bytes, the allocation's stream, a driver handle.
struct CountedStorage final : c10::StorageImpl {
  CountedStorage(use_byte_size_t unit, c10::SymInt bytes, c10::DataPtr data, c10::Allocator* allocator, bool resizable)
      : c10::StorageImpl(unit, std::move(bytes), std::move(data), allocator, resizable) {
    ++made;
    ++alive;
  }
  ~CountedStorage() override { --alive; }
};

// The signature is PyTorch's. If `data` has no memory, this function allocates it.
c10::intrusive_ptr<c10::StorageImpl> make_counted(c10::StorageImpl::use_byte_size_t unit, c10::SymInt bytes,
                                                  c10::DataPtr data, c10::Allocator* allocator, bool resizable) {
  if (data == nullptr) {
    data = allocator->allocate(bytes.as_int_unchecked());
  }
  return c10::make_intrusive<CountedStorage>(unit, std::move(bytes), std::move(data), allocator, resizable);
}
// LITERALINCLUDE END: storage-class-own

// LITERALINCLUDE START: storage-class-empty
// What `empty` must do instead of at::detail::empty_generic, which always creates a plain c10::StorageImpl.
at::Tensor empty_in_own_class(int64_t bytes, at::Device device) {
  const c10::DeviceGuard guard(device);  // the allocator uses the current device
  c10::Allocator* allocator = c10::GetAllocator(device.type());
  const auto storage = c10::make_storage_impl(c10::StorageImpl::use_byte_size_t(), bytes, allocator->allocate(bytes),
                                              allocator, /*resizable=*/true, device);
  const at::Tensor empty = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(device));
  return empty.set_(c10::Storage(storage), 0, {bytes}, {1});
}
// LITERALINCLUDE END: storage-class-empty

// LITERALINCLUDE START: storage-class-registration
TORCH_LIBRARY(storage_class, m) {
  m.def("register_for(Device device) -> ()",
        [](at::Device device) { c10::SetStorageImplCreate(device.type(), make_counted); });
  m.def("empty_in_own_class", empty_in_own_class);
  m.def("made() -> int", [] { return made.exchange(0); });
  m.def("alive() -> int", [] { return alive.load(); });
}
// LITERALINCLUDE END: storage-class-registration

}  // namespace
