// Storages: growing and shrinking the memory behind a tensor.
#pragma once

#include <c10/core/StorageImpl.h>

namespace openreg {

// Gives the storage `bytes` bytes and keeps as much of its content as fits. PyTorch's own resizing would copy the
// content with the host's memcpy, which cannot touch device memory.
// Throws: when the storage cannot be resized, for example because it wraps memory of somebody else.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace openreg
