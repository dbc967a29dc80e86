// 2D copies, for openreg_extended.h.
#include <cstring>

#include "copy.h"
#include "error.h"
#include "openreg_extended.h"

using namespace openreg::driver;

namespace {

// LITERALINCLUDE START: copy-rows-work
struct Rows {
  std::byte* start;
  size_t pitch;
};

struct RowsWork {
  Rows dst;
  Rows src;
  size_t width;
  size_t height;
  orMemcpyKind kind;

  void run(Device&) {
    for (size_t row = 0; row < height; ++row) {
      std::memmove(dst.start + row * dst.pitch, src.start + row * src.pitch, width);
    }
  }
  void release() {}
  [[nodiscard]] Activity activity() const {  // NOT PROVEN: called only while recording
    return {orActivityMemcpy, width * height, kind, nullptr};  // NOT PROVEN: as above
  }
};
// LITERALINCLUDE END: copy-rows-work

// LITERALINCLUDE START: copy-rows-side
// Looks up one side: from the start of its first row to the end of its last.
orError_t look_up_rows(Driver& driver, const char* name, const void* start, size_t pitch, size_t width, size_t height,
                       Side* side) {
  if (pitch < width) {
    return fail(orErrorInvalidValue, "%s_pitch is %zu, less than the width of %zu bytes", name, pitch, width);
  }
  size_t bytes = 0;
  if (__builtin_mul_overflow(pitch, height - 1, &bytes) || __builtin_add_overflow(bytes, width, &bytes)) {
    return fail(orErrorOutOfRange, "%zu rows of %s, %zu bytes apart, are more than there are addresses", height, name,
                pitch);
  }
  return look_up(driver, name, start, bytes, side);
}
// LITERALINCLUDE END: copy-rows-side

}  // namespace

// LITERALINCLUDE START: copy-rows-call
orError_t orMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height,
                          orMemcpyKind kind, orStream_t stream) {
  const Call call("orMemcpy2DAsync");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  if (const orError_t error = ref.stream->device().failure.refuse()) return error;
  if (width == 0 || height == 0) return orSuccess;
  Driver& driver = *started_driver();
  Side to;
  if (const orError_t error = look_up_rows(driver, "dst", dst, dst_pitch, width, height, &to)) return error;
  Side from;
  if (const orError_t error = look_up_rows(driver, "src", src, src_pitch, width, height, &from)) return error;
  if (const orError_t error = check_kind(kind, to, from)) return error;
  const RowsWork copy{{to.bytes, dst_pitch}, {from.bytes, src_pitch}, width, height, kind_of(to, from)};
  return queue_copy(ref, to, from, copy, width * height);
}
// LITERALINCLUDE END: copy-rows-call
