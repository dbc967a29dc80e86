// The only kernel: "sleep". It holds the driver's lock while it runs, since a real device would be busy for everyone.
#include <algorithm>
#include <cstring>
#include <thread>

#include "driver.h"

using namespace openreg::driver::minimal;
using openreg::driver::Call;
using openreg::driver::fail;

namespace {

orKernel_t sleep_kernel() { return reinterpret_cast<orKernel_t>(uintptr_t{1}); }

}  // namespace

// LITERALINCLUDE START: minimal-kernel
orError_t orGetKernel(orKernel_t* kernel, const char* name) {
  const Call named("orGetKernel");
  if (kernel == nullptr || name == nullptr) return fail(orErrorInvalidValue, "kernel or name is null");
  if (std::strcmp(name, "sleep") != 0) {
    return fail(orErrorInvalidValue, "the device has no kernel '%s'; valid is 'sleep'", name);
  }
  *kernel = sleep_kernel();
  return orSuccess;
}

orError_t orLaunchKernel(orKernel_t kernel, const void* arguments, size_t argument_bytes, orStream_t stream) {
  return call("orLaunchKernel", [&](Driver& driver) {
    Stream* found = nullptr;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    if (kernel != sleep_kernel()) {
      return fail(orErrorInvalidHandle, "%p is not a kernel", static_cast<void*>(kernel));
    }
    uint64_t nanoseconds = 0;
    if (arguments == nullptr || argument_bytes != sizeof(nanoseconds)) {
      return fail(orErrorInvalidValue, "kernel 'sleep' takes %zu bytes of arguments (nanoseconds), given %zu at %p",
                  sizeof(nanoseconds), argument_bytes, arguments);
    }
    std::memcpy(&nanoseconds, arguments, sizeof(nanoseconds));
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min<uint64_t>(nanoseconds, INT64_MAX / 2)));
    return orSuccess;
  });
}
// LITERALINCLUDE END: minimal-kernel
