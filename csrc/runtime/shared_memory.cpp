// Shared storages: called by torch_openreg/_sharing.py for share_memory_() and for tensors in queues and pipes. Called
// on any thread, also on those that send and receive for a queue, without the GIL.
#include "runtime/shared_memory.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "driver/openreg_ipc.h"
#include "runtime/allocator.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/stream.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

void free_dropped();

// LITERALINCLUDE START: shared-memory-deleters
// Both ways to give memory back wait for the device, which a capture may forbid, even that of another thread. What is
// dropped meanwhile waits for the end of the capture.
class Dropped {
 public:
  using Function = orError_t (*)(void*);
  using Memory = std::pair<void*, Function>;

  Dropped() { set_after_capture(&free_dropped); }
  void give_back(void* pointer, Function function) noexcept {
    try {
      keep({pointer, function});
      collect();
    } catch (const std::exception& error) {
      warn(error);  // NOT PROVEN: needs a host that is out of memory
    }
  }
  // One at a time, since a capture may begin while one is given back.
  void collect() {
    while (!device_waits_are_forbidden()) {
      Memory next;
      {
        const std::lock_guard lock(mutex_);
        if (waiting_.empty()) return;
        next = waiting_.back();
        waiting_.pop_back();
      }
      const DriverCall call(next.second == &orFree ? "orFree" : "orIpcCloseMemory");
      const orError_t error = next.second(next.first);
      if (error == orErrorStreamCaptureUnsupported) {
        static_cast<void>(orGetLastError());  // NOT PROVEN: a capture has begun just now
        return keep(next);                    // NOT PROVEN: as above
      }
      warn(error);
    }
  }

 private:
  void keep(const Memory& memory) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(memory);
  }

  std::mutex mutex_;
  std::vector<Memory> waiting_;
};

// Never destroyed: storages may be dropped until the process ends.
Dropped& dropped() {
  static Dropped& all = *new Dropped;
  return all;
}

// The deleter tells what memory a storage has. In a forked child the memory belongs to the parent.
void free_shareable(void* pointer) {
  if (pointer != nullptr && !is_in_bad_fork()) dropped().give_back(pointer, &orFree);
}

void close_opened(void* pointer) {
  if (pointer != nullptr && !is_in_bad_fork()) dropped().give_back(pointer, &orIpcCloseMemory);
}

bool has_deleter(const c10::Storage& storage, c10::DeleterFnPtr deleter) {
  return storage.data_ptr().get_deleter() == deleter;
}
// LITERALINCLUDE END: shared-memory-deleters

void free_dropped() { dropped().collect(); }

// LITERALINCLUDE START: shared-memory-check
void check_can_share(const c10::Device& device) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      can_share(), "memory of ", device, " cannot be shared with another process, since the ",
      "driver has no openreg_ipc.h: share or send tensor.cpu(), and move it to the device there");
}

void check_owned(const c10::Storage& storage) {
  check_can_share(storage.device());
  TORCH_CHECK(!has_deleter(storage, &close_opened), "openreg: a tensor on ", storage.device(),
              " that was received from another process cannot be sent on, since only the process that allocated the "
              "memory can: send tensor.clone()");
  TORCH_CHECK(
      storage.nbytes() == 0 || has_deleter(storage, &free_shareable) || has_deleter(storage, allocator().raw_deleter()),
      "openreg: a tensor on ", storage.device(),
      " over memory of another library cannot be shared with another process: share tensor.clone()");
}
// LITERALINCLUDE END: shared-memory-check

// LITERALINCLUDE START: shared-memory-allocate
// The current device's. The cache of the pool may hold all memory, so it is emptied before the allocation fails.
c10::DataPtr allocate_shareable(size_t bytes, const c10::Device& device) {
  dropped().collect();
  const auto allocate = [bytes](void** pointer) {
    const DriverCall call("orMallocShareable");
    return orMallocShareable(pointer, std::max<size_t>(bytes, 1));  // an empty tensor must have a handle as well
  };
  void* pointer = nullptr;
  orError_t error = allocate(&pointer);
  if (error == orErrorMemoryAllocation) {
    allocator().emptyCache();
    error = allocate(&pointer);
  }
  check(error);
  return {pointer, pointer, &free_shareable, device};
}
// LITERALINCLUDE END: shared-memory-allocate

c10::Storage fixed_storage(int64_t bytes, c10::DataPtr data) {
  const c10::Device device = data.device();
  return {c10::make_storage_impl(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), &allocator(),
                                 /*resizable=*/false, device)};
}

}  // namespace

bool can_share() noexcept { return &orMallocShareable != nullptr; }

bool is_shared(const c10::Storage& storage) {
  return has_deleter(storage, &free_shareable) || has_deleter(storage, &close_opened);
}

// LITERALINCLUDE START: shared-memory-move
void share_storage(const c10::Storage& storage) {
  const c10::Device device = storage.device();
  const c10::DeviceGuard guard(device);
  if (is_in_bad_fork()) check(orDeviceSynchronize());  // raises: a thread that is not here may hold the lock
  // Two queues send the same tensor on two threads. If both moved it, the second move would free the memory whose
  // handle the first one has sent.
  static std::mutex& moving = *new std::mutex;  // never destroyed, like the list above
  {
    const std::lock_guard lock(moving);
    check_owned(storage);
    if (is_shared(storage)) return;
  }
  // Any stream may have queued a write, and any stream may read next: both ends of the copy wait for all of them. This
  // first wait is not under the lock, since Python runs signal handlers in it, which may share as well; and it comes
  // before the allocation, whose deleter would wait again if Ctrl-C ended it.
  wait_for_device(device.index());
  check(orDeviceSynchronize());
  c10::DataPtr old;  // freed without the lock: a trace of it may call Python, which runs the handlers of signals
  const std::lock_guard lock(moving);
  if (is_shared(storage)) return;  // meanwhile
  check(orDeviceSynchronize());  // for what was queued meanwhile
  c10::DataPtr data = allocate_shareable(storage.nbytes(), device);
  if (storage.nbytes() > 0) {
    const DriverCall call("orMemcpy");
    check(orMemcpy(data.mutable_get(), storage.data(), storage.nbytes(), orMemcpyDeviceToDevice));
    check(orDeviceSynchronize());
  }
  c10::StorageImpl* const moved = storage.unsafeGetStorageImpl();
  old = moved->set_data_ptr(std::move(data));
  moved->set_resizable(false);  // it would move away from the other processes
}
// LITERALINCLUDE END: shared-memory-move

// LITERALINCLUDE START: shared-memory-export
std::string export_storage(const c10::Storage& storage) {
  check_owned(storage);
  orIpcMemoryHandle handle{};
  check(orIpcGetMemoryHandle(&handle, storage.mutable_data()));
  return {reinterpret_cast<const char*>(handle.bytes), sizeof(handle.bytes)};
}

c10::Storage open_storage(const std::string& handle, int64_t bytes, int64_t index) {
  const c10::Device device(c10::kPrivateUse1, resolve_device_index(index));
  check_can_share(device);
  orIpcMemoryHandle opened{};
  TORCH_CHECK_VALUE(handle.size() == sizeof(opened.bytes), "openreg: a memory handle has ", sizeof(opened.bytes),
                    " bytes, not ", handle.size());
  std::memcpy(opened.bytes, handle.data(), sizeof(opened.bytes));
  const c10::DeviceGuard guard(device);
  void* pointer = nullptr;
  {
    const DriverCall call("orIpcOpenMemoryHandle");
    check(orIpcOpenMemoryHandle(&pointer, &opened));
  }
  return fixed_storage(bytes, {pointer, pointer, &close_opened, device});
}
// LITERALINCLUDE END: shared-memory-export

// LITERALINCLUDE START: shared-memory-new
c10::Storage new_shared_storage(int64_t bytes, c10::Device device) {
  check_can_share(device);
  const c10::DeviceGuard guard(device);
  return fixed_storage(bytes, allocate_shareable(bytes, device));
}
// LITERALINCLUDE END: shared-memory-new

}  // namespace openreg
