// Storages: reached from Tensor.resize_ and Tensor.set_ (aten/resize.cpp) and, through the hook
// resizePrivateUse1Bytes, from UntypedStorage.resize_ and FSDP. Called on any thread, with or without the GIL.
#include "runtime/storage.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/allocator.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {

// LITERALINCLUDE START: storage-resize
void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "openreg: a storage of ", storage.nbytes(), " bytes on ", storage.device(),
              " is not resizable, and cannot become ", bytes, " bytes");
  // UntypedStorage.resize_ takes a signed number and passes it on unchecked.
  TORCH_CHECK(bytes <= std::numeric_limits<int64_t>::max(), "openreg: a storage cannot have ",
              static_cast<int64_t>(bytes), " bytes");
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr data = storage.allocator()->allocate(bytes);
  if (const size_t kept = std::min(bytes, storage.nbytes()); kept > 0) {
    // The old block is freed immediately. It is not reused before this copy has run: by stream order, or because the
    // copy's stream is recorded if it is not the block's own.
    allocator().recordStream(storage.data_ptr(), current_stream(storage.device().index()));
    const DriverCall call("orMemcpyAsync");
    check(orMemcpyAsync(data.mutable_get(), storage.data(), kept, orMemcpyDeviceToDevice,
                        current_stream_handle(storage.device().index())));
  }
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}
// LITERALINCLUDE END: storage-resize

}  // namespace openreg
