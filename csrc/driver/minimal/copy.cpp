// Copies and fills. Only the driver can turn an address into bytes: here by an addition, on hardware by a transfer.
#include <cstring>

#include "driver.h"

using namespace openreg::driver::minimal;
using openreg::driver::fail;

namespace {

// LITERALINCLUDE START: minimal-side
// One side of a copy.
struct Side {
  bool on_device = false;
  std::byte* bytes = nullptr;
};

orError_t look_up(Driver& driver, const char* name, const void* pointer, size_t bytes, Side* side) {
  if (pointer == nullptr) return fail(orErrorInvalidValue, "%s is null", name);
  const auto location = locate(driver, pointer);
  if (!location) {
    side->bytes = static_cast<std::byte*>(const_cast<void*>(pointer));  // a source is only read
    return orSuccess;
  }
  const Device& device = driver.devices[static_cast<size_t>(location->device)];
  size_t start = 0;
  size_t size = 0;
  if (const orError_t error = find_allocation(device, *location, &start, &size)) return error;
  const size_t left = start + size - location->offset;
  if (bytes > left) {
    return fail(orErrorOutOfRange,
                "%zu bytes at openreg:%d + 0x%zx run past the end of the allocation; %zu are left there", bytes,
                location->device, location->offset, left);
  }
  *side = Side{true, device.bytes + location->offset};
  return orSuccess;
}
// LITERALINCLUDE END: minimal-side

// LITERALINCLUDE START: minimal-copy
orError_t copy(Driver& driver, void* dst, const void* src, size_t bytes, orMemcpyKind kind) {
  if (bytes == 0) return orSuccess;
  Side to;
  Side from;
  if (const orError_t error = look_up(driver, "dst", dst, bytes, &to)) return error;
  if (const orError_t error = look_up(driver, "src", src, bytes, &from)) return error;
  const int actual = (from.on_device ? 2 : 0) + (to.on_device ? 1 : 0);
  if (kind != orMemcpyDefault && static_cast<int>(kind) != actual) {
    return fail(orErrorInvalidMemcpyKind, "kind is %d, but src is %s memory and dst is %s memory; pass %d",
                static_cast<int>(kind), from.on_device ? "device" : "host", to.on_device ? "device" : "host", actual);
  }
  std::memmove(to.bytes, from.bytes, bytes);
  return orSuccess;
}

orError_t fill(Driver& driver, void* pointer, int value, size_t bytes) {
  if (bytes == 0) return orSuccess;
  Side side;
  if (const orError_t error = look_up(driver, "pointer", pointer, bytes, &side)) return error;
  if (!side.on_device) return fail(orErrorInvalidPointer, "%p is not device memory", pointer);
  std::memset(side.bytes, value, bytes);
  return orSuccess;
}

}  // namespace

orError_t orMemcpy(void* dst, const void* src, size_t bytes, orMemcpyKind kind) {
  return call("orMemcpy", [&](Driver& driver) { return copy(driver, dst, src, bytes, kind); });
}

// The stream has no earlier work to wait for.
orError_t orMemcpyAsync(void* dst, const void* src, size_t bytes, orMemcpyKind kind, orStream_t stream) {
  return call("orMemcpyAsync", [&](Driver& driver) {
    Stream* found = nullptr;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    return copy(driver, dst, src, bytes, kind);
  });
}
// LITERALINCLUDE END: minimal-copy

orError_t orMemset(void* pointer, int value, size_t bytes) {
  return call("orMemset", [&](Driver& driver) { return fill(driver, pointer, value, bytes); });
}

orError_t orMemsetAsync(void* pointer, int value, size_t bytes, orStream_t stream) {
  return call("orMemsetAsync", [&](Driver& driver) {
    Stream* found = nullptr;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    return fill(driver, pointer, value, bytes);
  });
}
