// Storages: growing and shrinking the memory behind a tensor.
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

namespace openreg {

// Gives the storage `bytes` bytes and keeps as much of its content as fits. PyTorch's own resizing would copy the
// content with the host's memcpy, which cannot touch device memory.
// Throws: when the storage cannot be resized, for example because it wraps external memory.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

// LITERALINCLUDE START: storage-has-memory
// Throws: when a tensor has bytes but no memory: its storage was resized to 0, as FSDP does between two uses, and the
// tensor kept its sizes.
//
// Asks the storage: a tensor that begins further on in it has an address that is not null.
inline void check_has_memory(const at::TensorBase& tensor) {
  TORCH_CHECK(tensor.numel() == 0 || tensor.storage().data() != nullptr, "openreg: a tensor of ", tensor.nbytes(),
              " bytes has no memory: its storage was resized to 0; give it its size again before the tensor is used");
}
// LITERALINCLUDE END: storage-has-memory

}  // namespace openreg
