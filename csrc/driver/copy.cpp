// Copies and fills. Pointers are checked before anything is queued, so that the call itself reports an invalid one.
#include "copy.h"

#include <cstring>
#include <new>
#include <optional>

#include "activity.h"
#include "error.h"
#include "pinned.h"

using namespace openreg::driver;

namespace {

// A pageable source up to this size is copied to a staging buffer, so that the copy can be queued; for a larger one the
// call waits, because staging would cost more than queueing gains.
constexpr size_t kStagingBytes = size_t{1} << 20;

// LITERALINCLUDE START: copy-work
struct CopyWork {
  std::byte* dst;
  const std::byte* src;
  size_t bytes;
  orMemcpyKind kind;

  void run(Device&) { std::memmove(dst, src, bytes); }
  void release() {}
  [[nodiscard]] Activity activity() const {  // NOT PROVEN: called only while recording
    return {orActivityMemcpy, bytes, kind, nullptr};  // NOT PROVEN: as above
  }
};

struct StagedCopyWork {
  std::byte* dst;
  void* staged;
  size_t bytes;

  void run(Device&) { std::memcpy(dst, staged, bytes); }
  void release() { ::operator delete(staged); }
  [[nodiscard]] Activity activity() const {  // NOT PROVEN: called only while recording
    return {orActivityMemcpy, bytes, orMemcpyHostToDevice, nullptr};  // NOT PROVEN: as above
  }
};
// LITERALINCLUDE END: copy-work

struct FillWork {
  std::byte* dst;
  int value;
  size_t bytes;

  void run(Device&) { std::memset(dst, value, bytes); }
  void release() {}
  [[nodiscard]] Activity activity() const {  // NOT PROVEN: called only while recording
    return {orActivityMemset, bytes, orMemcpyDefault, nullptr};  // NOT PROVEN: as above
  }
};

}  // namespace

namespace openreg::driver {

// LITERALINCLUDE START: copy-look-up
orError_t look_up(Driver& driver, const char* name, const void* pointer, size_t bytes, Side* side) {
  if (pointer == nullptr) return fail(orErrorInvalidValue, "%s is null", name);
  if (const auto location = driver.space.locate(pointer)) {
    side->device = &driver.devices[static_cast<size_t>(location->device)];
    side->bytes = driver.space.backing(*location);
    if (const orError_t error = side->device->failure.refuse()) return error;
    return side->device->memory.check_range(location->offset, bytes);
  }
  side->bytes = static_cast<std::byte*>(const_cast<void*>(pointer));  // a source is only read
  if (const auto block = find_pinned(pointer)) {
    side->pinned = true;
    const auto before = static_cast<size_t>(side->bytes - static_cast<std::byte*>(block->base));
    if (bytes > block->bytes - before) {
      return fail(orErrorOutOfRange,
                  "%zu bytes at %p run past the end of the pinned memory of %zu bytes at %p; %zu bytes are left there",
                  bytes, pointer, block->bytes, block->base, block->bytes - before);
    }
  }
  return orSuccess;
}
// LITERALINCLUDE END: copy-look-up

// LITERALINCLUDE START: copy-kind
orMemcpyKind kind_of(const Side& dst, const Side& src) {
  return static_cast<orMemcpyKind>((src.device != nullptr ? 2 : 0) + (dst.device != nullptr ? 1 : 0));
}

orError_t check_kind(orMemcpyKind kind, const Side& dst, const Side& src) {
  constexpr const char* kNames[] = {"orMemcpyHostToHost", "orMemcpyHostToDevice", "orMemcpyDeviceToHost",
                                    "orMemcpyDeviceToDevice"};
  const orMemcpyKind actual = kind_of(dst, src);
  if (kind == orMemcpyDefault || kind == actual) return orSuccess;
  if (kind < orMemcpyHostToHost || kind > orMemcpyDefault) {
    return fail(orErrorInvalidMemcpyKind, "kind %d does not exist; valid are 0 to 4", static_cast<int>(kind));
  }
  return fail(orErrorInvalidMemcpyKind, "kind is %s, but src is %s memory and dst is %s memory; pass %s", kNames[kind],
              src.device != nullptr ? "device" : "host", dst.device != nullptr ? "device" : "host", kNames[actual]);
}
// LITERALINCLUDE END: copy-kind

// LITERALINCLUDE START: copy-both-sides
orError_t look_up_both(Driver& driver, void* dst, const void* src, size_t bytes, orMemcpyKind kind, Side* dst_side,
                       Side* src_side) {
  if (const orError_t error = look_up(driver, "dst", dst, bytes, dst_side)) return error;
  if (const orError_t error = look_up(driver, "src", src, bytes, src_side)) return error;
  return check_kind(kind, *dst_side, *src_side);
}

orError_t look_up_device(Driver& driver, const void* pointer, size_t bytes, Side* side) {
  if (const orError_t error = look_up(driver, "pointer", pointer, bytes, side)) return error;
  if (side->device == nullptr) return fail(orErrorInvalidPointer, "%p is not device memory", pointer);
  return orSuccess;
}
// LITERALINCLUDE END: copy-both-sides

}  // namespace openreg::driver

namespace {

// LITERALINCLUDE START: copy-and-wait
// Runs the work on the default stream of the device and waits for it.
template <class Work>
orError_t run_and_wait(Device& device, const Work& work) {
  if (const orError_t error = refuse_wait_while_captured(device)) return error;
  Stream& stream = *device.streams.at(0);
  uint64_t sequence = 0;
  if (const orError_t error =
          stream.submit(stream.generation.load(), Task(work), device.placement_when_waited_for(), &sequence)) {
    return error;
  }
  return device.synchronize(stream, sequence);
}
// LITERALINCLUDE END: copy-and-wait

// LITERALINCLUDE START: copy-staged
// Whether a copy from pageable memory is queued from a staging buffer. In auto, not on an idle stream: the caller has
// to read the source anyway, and can write it directly to its destination.
bool wants_staging(const Device& device, Stream& stream, size_t bytes) {
  return bytes <= kStagingBytes &&
         (device.launch == LaunchMode::kAsync || (device.launch == LaunchMode::kAuto && !stream.idle())) &&
         stream.capture() == nullptr;
}

orError_t queue_staged(const StreamRef& ref, const CopyWork& copy) {
  void* const staged = ::operator new(copy.bytes, std::nothrow);
  if (staged == nullptr) return fail(orErrorMemoryAllocation, "no host memory to stage %zu bytes in", copy.bytes);
  std::memcpy(staged, copy.src, copy.bytes);
  uint64_t sequence = 0;
  return ref.stream->submit(ref.generation, Task(StagedCopyWork{copy.dst, staged, copy.bytes}), Placement::kQueue,
                            &sequence, kPageable);
}
// LITERALINCLUDE END: copy-staged

}  // namespace

// LITERALINCLUDE START: copy-waiting
orError_t orMemcpy(void* dst, const void* src, size_t bytes, orMemcpyKind kind) {
  const Call call("orMemcpy");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  if (bytes == 0) return orSuccess;
  Side dst_side;
  Side src_side;
  if (const orError_t error = look_up_both(*driver, dst, src, bytes, kind, &dst_side, &src_side)) return error;
  const CopyWork copy{dst_side.bytes, src_side.bytes, bytes, kind_of(dst_side, src_side)};
  Device* const device = dst_side.device != nullptr ? dst_side.device : src_side.device;
  if (device == nullptr) {
    std::memmove(dst, src, bytes);
    return orSuccess;
  }
  if (src_side.device != nullptr && src_side.device != device) {
    if (const orError_t error = refuse_wait_while_captured(*src_side.device)) return error;
    Stream& stream = *src_side.device->streams.at(0);
    if (const orError_t error = src_side.device->synchronize(stream, stream.queued())) return error;
  }
  return run_and_wait(*device, copy);
}
// LITERALINCLUDE END: copy-waiting

// LITERALINCLUDE START: copy-asynchronous
orError_t orMemcpyAsync(void* dst, const void* src, size_t bytes, orMemcpyKind kind, orStream_t stream) {
  const Call call("orMemcpyAsync");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  StreamRef ref;
  if (const orError_t error = driver->find_stream(stream, &ref)) return error;
  if (const orError_t error = ref.stream->device().failure.refuse()) return error;
  if (bytes == 0) return orSuccess;
  Side dst_side;
  Side src_side;
  if (const orError_t error = look_up_both(*driver, dst, src, bytes, kind, &dst_side, &src_side)) return error;
  const CopyWork copy{dst_side.bytes, src_side.bytes, bytes, kind_of(dst_side, src_side)};
  if (src_side.pageable() && dst_side.device != nullptr && wants_staging(ref.stream->device(), *ref.stream, bytes)) {
    return queue_staged(ref, copy);
  }
  return queue_copy(ref, dst_side, src_side, copy, bytes);
}
// LITERALINCLUDE END: copy-asynchronous

// LITERALINCLUDE START: copy-fill
orError_t orMemset(void* pointer, int value, size_t bytes) {
  const Call call("orMemset");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  if (bytes == 0) return orSuccess;
  Side side;
  if (const orError_t error = look_up_device(*driver, pointer, bytes, &side)) return error;
  return run_and_wait(*side.device, FillWork{side.bytes, value, bytes});
}

orError_t orMemsetAsync(void* pointer, int value, size_t bytes, orStream_t stream) {
  const Call call("orMemsetAsync");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  StreamRef ref;
  if (const orError_t error = driver->find_stream(stream, &ref)) return error;
  Device& device = ref.stream->device();
  if (const orError_t error = device.failure.refuse()) return error;
  if (bytes == 0) return orSuccess;
  Side side;
  if (const orError_t error = look_up_device(*driver, pointer, bytes, &side)) return error;
  uint64_t sequence = 0;
  return ref.stream->submit(ref.generation, Task(FillWork{side.bytes, value, bytes}), device.placement(bytes),
                            &sequence);
}
// LITERALINCLUDE END: copy-fill
