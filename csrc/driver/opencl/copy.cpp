// Copies and fills. An OpenCL copy accepts shared virtual memory and host memory on either side, and is a command like
// any other; the driver decides which calls wait for it.
#include "copy.h"

#include <cstring>

#include "../openreg_extended.h"
#include "driver.h"

namespace openreg::driver::opencl {
namespace {

// A pageable source up to this size is copied to a staging buffer, so that the copy can be queued; for a larger one the
// call waits, because staging would cost more than queueing gains.
constexpr size_t kStagingBytes = size_t{1} << 20;

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

}  // namespace

orMemcpyKind kind_of(const Side& dst, const Side& src) {
  return static_cast<orMemcpyKind>((src.device != nullptr ? 2 : 0) + (dst.device != nullptr ? 1 : 0));
}

orError_t look_up(Driver& driver, const char* name, const void* pointer, size_t bytes, Side* side) {
  if (pointer == nullptr) return fail(orErrorInvalidValue, "%s is null", name);
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Arena::Place place{};
  Arena::Block block{};
  side->device = driver.device_of(pointer, &place, &block);
  if (side->device != nullptr) {
    if (const orError_t error = side->device->failure.refuse()) return error;
    if (place == Arena::Place::kFree) {
      return fail(orErrorFreedPointer, "%s %p on openreg:%d is not allocated, or no longer", name, pointer,
                  side->device->index);
    }
  } else if (const auto pinned = driver.pinned.find(pointer)) {
    side->pinned = true;
    block = Arena::Block{pinned->start, pinned->bytes};
  } else {
    return orSuccess;
  }
  const size_t left = block.start + block.bytes - address;
  if (bytes <= left) return orSuccess;
  return fail(orErrorOutOfRange, "%zu bytes at %s %p run past the end of the %s of %zu bytes; %zu are left there",
              bytes, name, pointer, side->pinned ? "pinned memory" : "allocation", block.bytes, left);
}

orError_t look_up_device(Driver& driver, const void* pointer, size_t bytes, Side* side) {
  if (const orError_t error = look_up(driver, "pointer", pointer, bytes, side)) return error;
  if (side->device == nullptr) return fail(orErrorInvalidPointer, "%p is not device memory", pointer);
  return orSuccess;
}

orError_t look_up_both(Driver& driver, void* dst, const void* src, size_t dst_bytes, size_t src_bytes,
                       orMemcpyKind kind, Side* dst_side, Side* src_side) {
  if (const orError_t error = look_up(driver, "dst", dst, dst_bytes, dst_side)) return error;
  if (const orError_t error = look_up(driver, "src", src, src_bytes, src_side)) return error;
  return check_kind(kind, *dst_side, *src_side);
}

namespace {

// Rows of bytes; a plain copy is one row.
struct Rows {
  std::byte* dst;
  size_t dst_pitch;
  const std::byte* src;
  size_t src_pitch;
  size_t width;
  size_t height;

  [[nodiscard]] size_t bytes() const { return width * height; }
};

cl_int enqueue_rows(cl_command_queue queue, const Rows& rows, ClEvent* first, cl_event* last) {
  for (size_t row = 0; row < rows.height; ++row) {
    cl_event event = nullptr;
    const bool shown = row == 0 || row + 1 == rows.height;
    const cl_int status =
        clEnqueueSVMMemcpy(queue, CL_FALSE, rows.dst + row * rows.dst_pitch, rows.src + row * rows.src_pitch,
                           rows.width, 0, nullptr, shown ? &event : nullptr);
    if (status != CL_SUCCESS) {
      // The rows before are queued: nothing would wait for them, and what they read may go away.
      if (row > 0) (void)clFinish(queue);
      return status;
    }
    if (row + 1 == rows.height) {
      *last = event;
    } else if (row == 0) {
      *first = ClEvent(event);
    }
  }
  return CL_SUCCESS;
}

void copy_on_host(const Rows& rows) {
  for (size_t row = 0; row < rows.height; ++row) {
    std::memmove(rows.dst + row * rows.dst_pitch, rows.src + row * rows.src_pitch, rows.width);
  }
}

// LITERALINCLUDE START: opencl-copy
orError_t submit_copy(Stream& stream, const Rows& rows, orMemcpyKind kind, std::shared_ptr<void> keeps,
                      ClEvent* queued) {
  Work work;
  work.kind = orActivityMemcpy;
  work.bytes = rows.bytes();
  work.copy_kind = kind;
  work.keeps = std::move(keeps);
  return stream.submit_several(
      "clEnqueueSVMMemcpy", std::move(work),
      [&](cl_command_queue queue, ClEvent* first, cl_event* last) { return enqueue_rows(queue, rows, first, last); },
      queued);
}

orError_t queue_staged(Stream& stream, Rows rows) {
  const std::shared_ptr<std::byte[]> staged(new std::byte[rows.bytes()]);
  copy_on_host(Rows{staged.get(), rows.width, rows.src, rows.src_pitch, rows.width, rows.height});
  rows.src = staged.get();
  rows.src_pitch = rows.width;
  return submit_copy(stream, rows, orMemcpyHostToDevice, staged, nullptr);
}

orError_t queue_copy(Stream& stream, const Side& dst, const Side& src, const Rows& rows) {
  Device& device = stream.device();
  if (dst.device == nullptr && src.device == nullptr) {  // not work for the device, but stream-ordered
    if (const orError_t error = device.synchronize(stream, stream.last())) return error;
    copy_on_host(rows);
    return orSuccess;
  }
  if (src.pageable() && rows.bytes() <= kStagingBytes && device.launch != LaunchMode::kInline && stream.last()) {
    return queue_staged(stream, rows);
  }
  ClEvent queued;
  if (const orError_t error = submit_copy(stream, rows, kind_of(dst, src), nullptr, &queued)) return error;
  // A copy to pageable memory synchronizes, and therefore reports failures. A copy from it does not: whether it waits
  // depends on its size and on the stream's other work, and when a failure is reported must not depend on that.
  if (dst.pageable()) return device.synchronize(stream, queued);
  if (src.pageable()) {
    wait_for(queued);
    rest_if_process_is_ending();
  }
  return orSuccess;
}
// LITERALINCLUDE END: opencl-copy

// OpenCL repeats patterns of up to 128 bytes; a fill with a byte is a pattern of one.
orError_t submit_fill(Stream& stream, void* pointer, const void* pattern, size_t pattern_bytes, size_t bytes,
                      ClEvent* queued) {
  Work work;
  work.kind = orActivityMemset;
  work.bytes = bytes;
  return stream.submit(
      "clEnqueueSVMMemFill", std::move(work),
      [&](cl_command_queue queue, cl_event* event) {
        return clEnqueueSVMMemFill(queue, pointer, pattern, pattern_bytes, bytes, 0, nullptr, event);
      },
      queued);
}

}  // namespace
}  // namespace openreg::driver::opencl

using namespace openreg::driver::opencl;
using openreg::driver::fail;

orError_t orMemcpy(void* dst, const void* src, size_t bytes, orMemcpyKind kind) {
  return call("orMemcpy", [&](Driver& driver) {
    if (bytes == 0) return orSuccess;
    Side dst_side;
    Side src_side;
    if (const orError_t error = look_up_both(driver, dst, src, bytes, bytes, kind, &dst_side, &src_side)) return error;
    const Rows rows{static_cast<std::byte*>(dst), bytes, static_cast<const std::byte*>(src), bytes, bytes, 1};
    Device* const device = dst_side.device != nullptr ? dst_side.device : src_side.device;
    if (device == nullptr) {
      copy_on_host(rows);
      return orSuccess;
    }
    if (src_side.device != nullptr && src_side.device != device) {
      Stream& other = driver.default_stream(*src_side.device);
      if (const orError_t error = src_side.device->synchronize(other, other.last())) return error;
    }
    Stream& stream = driver.default_stream(*device);
    ClEvent queued;
    if (const orError_t error = submit_copy(stream, rows, kind_of(dst_side, src_side), nullptr, &queued)) return error;
    return device->synchronize(stream, queued);
  });
}

orError_t orMemcpyAsync(void* dst, const void* src, size_t bytes, orMemcpyKind kind, orStream_t stream) {
  return call("orMemcpyAsync", [&](Driver& driver) {
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    if (const orError_t error = on->device().failure.refuse()) return error;
    if (bytes == 0) return orSuccess;
    Side dst_side;
    Side src_side;
    if (const orError_t error = look_up_both(driver, dst, src, bytes, bytes, kind, &dst_side, &src_side)) return error;
    return queue_copy(*on, dst_side, src_side,
                      Rows{static_cast<std::byte*>(dst), bytes, static_cast<const std::byte*>(src), bytes, bytes, 1});
  });
}

// OpenCL has no 2D copy of shared virtual memory: each row is a command, unless the rows are contiguous.
orError_t orMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height,
                          orMemcpyKind kind, orStream_t stream) {
  return call("orMemcpy2DAsync", [&](Driver& driver) {
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    if (const orError_t error = on->device().failure.refuse()) return error;
    if (dst_pitch < width || src_pitch < width) {
      return fail(orErrorInvalidValue, "the pitches are %zu and %zu bytes, less than the width of %zu", dst_pitch,
                  src_pitch, width);
    }
    if (width == 0 || height == 0) return orSuccess;
    size_t dst_bytes = 0;
    size_t src_bytes = 0;
    if (__builtin_mul_overflow(dst_pitch, height - 1, &dst_bytes) ||
        __builtin_add_overflow(dst_bytes, width, &dst_bytes) ||
        __builtin_mul_overflow(src_pitch, height - 1, &src_bytes) ||
        __builtin_add_overflow(src_bytes, width, &src_bytes)) {
      return fail(orErrorOutOfRange, "%zu rows of %zu bytes run past the end of the address space", height, width);
    }
    Side dst_side;
    Side src_side;
    if (const orError_t error = look_up_both(driver, dst, src, dst_bytes, src_bytes, kind, &dst_side, &src_side)) {
      return error;
    }
    Rows rows{static_cast<std::byte*>(dst), dst_pitch, static_cast<const std::byte*>(src), src_pitch, width, height};
    if (dst_pitch == width && src_pitch == width) {
      rows.width = rows.dst_pitch = rows.src_pitch = width * height;
      rows.height = 1;
    }
    return queue_copy(*on, dst_side, src_side, rows);
  });
}

orError_t orMemset(void* pointer, int value, size_t bytes) {
  return call("orMemset", [&](Driver& driver) {
    if (bytes == 0) return orSuccess;
    Side side;
    if (const orError_t error = look_up_device(driver, pointer, bytes, &side)) return error;
    Stream& stream = driver.default_stream(*side.device);
    const auto byte = static_cast<unsigned char>(value);
    ClEvent queued;
    if (const orError_t error = submit_fill(stream, pointer, &byte, 1, bytes, &queued)) return error;
    return side.device->synchronize(stream, queued);
  });
}

orError_t orMemsetAsync(void* pointer, int value, size_t bytes, orStream_t stream) {
  return call("orMemsetAsync", [&](Driver& driver) {
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    if (const orError_t error = on->device().failure.refuse()) return error;
    if (bytes == 0) return orSuccess;
    Side side;
    if (const orError_t error = look_up_device(driver, pointer, bytes, &side)) return error;
    const auto byte = static_cast<unsigned char>(value);
    return submit_fill(*on, pointer, &byte, 1, bytes, nullptr);
  });
}

orError_t orFillAsync(void* pointer, const void* pattern, size_t pattern_bytes, size_t count, orStream_t stream) {
  return call("orFillAsync", [&](Driver& driver) {
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    if (const orError_t error = on->device().failure.refuse()) return error;
    if (pattern == nullptr) return fail(orErrorInvalidValue, "pattern is null");
    if (pattern_bytes == 0 || pattern_bytes > 16 || (pattern_bytes & (pattern_bytes - 1)) != 0) {
      return fail(orErrorInvalidValue, "pattern_bytes is %zu; valid are 1, 2, 4, 8 and 16", pattern_bytes);
    }
    if (count == 0) return orSuccess;
    if (reinterpret_cast<uintptr_t>(pointer) % pattern_bytes != 0) {
      return fail(orErrorMisalignedPointer, "%p is not a multiple of the pattern's %zu bytes", pointer, pattern_bytes);
    }
    size_t bytes = 0;
    if (__builtin_mul_overflow(pattern_bytes, count, &bytes)) bytes = SIZE_MAX;
    Side side;
    if (const orError_t error = look_up_device(driver, pointer, bytes, &side)) return error;
    return submit_fill(*on, pointer, pattern, pattern_bytes, bytes, nullptr);
  });
}
