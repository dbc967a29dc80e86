// Storages whose memory other processes can open, over openreg_ipc.h.
//
// Ordinary blocks belong to segments of the pool, which hold other tensors too. So a storage moves to an allocation of
// its own when it is first shared: the other process gets these bytes and no others, and the block goes back to the
// pool.
#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <string>

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: shared-memory-functions
// Whether the driver can share memory and events between processes.
OPENREG_EXPORT bool can_share() noexcept;

// Whether other processes can open the memory, or it was opened from another process.
OPENREG_EXPORT bool is_shared(const c10::Storage& storage);

// Moves the storage to shareable memory, unless it is there. All tensors of the storage move with it; an address that
// other code holds does not. Waits for the device. From then on, the storage cannot be resized.
// Throws: when the driver cannot share, or when the memory belongs to another library or another process.
OPENREG_EXPORT void share_storage(const c10::Storage& storage);

// The handle of a storage that was moved here. The storage must live until the other process has opened it.
// Throws: as share_storage.
OPENREG_EXPORT std::string export_storage(const c10::Storage& storage);

// A storage over the memory of another process, or of this one. It stays valid when that process ends.
// Throws: when the handle is damaged, or when the process has ended or freed the memory.
OPENREG_EXPORT c10::Storage open_storage(const std::string& handle, int64_t bytes, int64_t index);
// LITERALINCLUDE END: shared-memory-functions

// A new storage in shareable memory, for communication libraries: it never was a block of the pool.
// Throws: when the driver cannot share, or when the device has no memory left.
c10::Storage new_shared_storage(int64_t bytes, c10::Device device);

}  // namespace openreg
