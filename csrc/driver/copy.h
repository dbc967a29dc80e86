// Helpers shared by copies and fills: looking up what a pointer points to, and queueing work that accesses it.
#pragma once

#include <cstddef>

#include "capture.h"
#include "driver.h"
#include "openreg.h"

namespace openreg::driver {

// LITERALINCLUDE START: copy-side
// One side of a copy.
struct Side {
  Device* device = nullptr;  // null for host memory
  bool pinned = false;
  std::byte* bytes = nullptr;  // the host address of the bytes

  [[nodiscard]] bool pageable() const { return device == nullptr && !pinned; }
};
// LITERALINCLUDE END: copy-side

// Looks up a side; `name` is the argument's name, for messages.
orError_t look_up(Driver& driver, const char* name, const void* pointer, size_t bytes, Side* side);
// The same for a pointer that must be device memory.
orError_t look_up_device(Driver& driver, const void* pointer, size_t bytes, Side* side);
// Looks up both sides of a copy, and checks its kind.
orError_t look_up_both(Driver& driver, void* dst, const void* src, size_t bytes, orMemcpyKind kind, Side* dst_side,
                       Side* src_side);
// Checks that the caller's kind matches where the two sides lie.
orError_t check_kind(orMemcpyKind kind, const Side& dst, const Side& src);
orMemcpyKind kind_of(const Side& dst, const Side& src);

// LITERALINCLUDE START: copy-queue
inline constexpr const char* kPageable =
    "pageable memory is read or written once, before the call returns; copy between pinned and device memory";

// Queues a copy of `bytes` from one side to the other, and waits for it if either is pageable.
template <class Work>
orError_t queue_copy(const StreamRef& ref, const Side& dst, const Side& src, const Work& copy, size_t bytes) {
  Device& device = ref.stream->device();
  const bool wait = src.pageable() || dst.pageable();
  if (wait) {
    if (const orError_t error = refuse_if_captured(*ref.stream, kPageable)) return error;
  }
  const Placement placement = wait ? device.placement_when_waited_for() : device.placement(bytes);
  uint64_t sequence = 0;
  if (const orError_t error =
          ref.stream->submit(ref.generation, Task(copy), placement, &sequence, wait ? kPageable : nullptr)) {
    return error;
  }
  // A copy to pageable memory synchronizes, and therefore reports failures. A copy from it does not: whether it waits
  // depends on its size and on the stream's other work, and when a failure is reported must not depend on that.
  if (dst.pageable()) return device.synchronize(*ref.stream, sequence);
  if (wait && !ref.stream->wait(sequence)) return end_dropped_call();  // the source may still be read
  return orSuccess;
}
// LITERALINCLUDE END: copy-queue

}  // namespace openreg::driver
