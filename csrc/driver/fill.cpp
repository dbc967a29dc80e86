// Fills with a pattern, for openreg_extended.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include "copy.h"
#include "error.h"
#include "openreg_extended.h"

using namespace openreg::driver;

namespace {

// LITERALINCLUDE START: fill-work
struct Pattern {
  static constexpr size_t kMost = 16;

  alignas(kMost) std::byte bytes[kMost];
};

template <class Element>
void fill_elements(std::byte* dst, const Pattern& pattern, size_t count) {
  Element element;
  std::memcpy(&element, pattern.bytes, sizeof(element));
  std::fill_n(reinterpret_cast<Element*>(dst), count, element);
}

struct PatternWork {
  Pattern pattern;
  std::byte* dst;
  size_t pattern_bytes;
  size_t count;

  void run(Device&) {
    switch (pattern_bytes) {
      case 1:
        return fill_elements<uint8_t>(dst, pattern, count);
      case 2:
        return fill_elements<uint16_t>(dst, pattern, count);
      case 4:
        return fill_elements<uint32_t>(dst, pattern, count);
      case 8:
        return fill_elements<uint64_t>(dst, pattern, count);
      default:
        return fill_elements<Pattern>(dst, pattern, count);
    }
  }
  void release() {}
  [[nodiscard]] Activity activity() const {  // NOT PROVEN: called only while recording
    return {orActivityMemset, pattern_bytes * count, orMemcpyDefault, nullptr};  // NOT PROVEN: as above
  }
};
// LITERALINCLUDE END: fill-work

}  // namespace

// LITERALINCLUDE START: fill-call
orError_t orFillAsync(void* pointer, const void* pattern, size_t pattern_bytes, size_t count, orStream_t stream) {
  const Call call("orFillAsync");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  Device& device = ref.stream->device();
  if (const orError_t error = device.failure.refuse()) return error;
  if (pattern == nullptr) return fail(orErrorInvalidValue, "pattern is null");
  if (pattern_bytes > Pattern::kMost || !std::has_single_bit(pattern_bytes)) {
    return fail(orErrorInvalidValue, "a pattern of %zu bytes is not one; valid are 1, 2, 4, 8 and 16", pattern_bytes);
  }
  if (count == 0) return orSuccess;
  size_t bytes = 0;
  if (__builtin_mul_overflow(pattern_bytes, count, &bytes)) bytes = SIZE_MAX;
  Side side;
  if (const orError_t error = look_up_device(*started_driver(), pointer, bytes, &side)) return error;
  if (reinterpret_cast<uintptr_t>(pointer) % pattern_bytes != 0) {
    return fail(orErrorMisalignedPointer, "%p is no multiple of the pattern's %zu bytes", pointer, pattern_bytes);
  }
  PatternWork work{{}, side.bytes, pattern_bytes, count};
  std::memcpy(work.pattern.bytes, pattern, pattern_bytes);
  uint64_t sequence = 0;
  return ref.stream->submit(ref.generation, Task(work), device.placement(bytes), &sequence);
}
// LITERALINCLUDE END: fill-call
