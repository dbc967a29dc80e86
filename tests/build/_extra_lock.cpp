// A launch that takes one more lock than the driver's: test_instructions.py preloads it.
#include <dlfcn.h>

#include <mutex>

#include "openreg_host_kernels.h"

extern "C" orError_t orLaunchHostKernel(const orHostKernel* kernel, orStream_t stream) {
  using Launch = orError_t (*)(const orHostKernel*, orStream_t);
  static const auto original = reinterpret_cast<Launch>(dlsym(dlopen("libopenreg.so", RTLD_NOW), "orLaunchHostKernel"));
#ifdef EXTRA_LOCK
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
#endif
  return original(kernel, stream);
}
