// A driver whose modules cannot become binaries, and whose functions have small groups: test_module_cache.py preloads
// it.
#include <dlfcn.h>

#include <algorithm>

#include "openreg_modules.h"

extern "C" orError_t orModuleGetBinary(void*, size_t*, orModule_t) { return orErrorNotSupported; }

extern "C" orError_t orFunctionGetAttributes(orFunctionAttributes* attributes, orFunction_t function) {
  using Get = orError_t (*)(orFunctionAttributes*, orFunction_t);
  static const auto original =
      reinterpret_cast<Get>(dlsym(dlopen("libopenreg.so", RTLD_NOW), "orFunctionGetAttributes"));
  const orError_t error = original(attributes, function);
  if (error == orSuccess) attributes->max_group_size = std::min<size_t>(attributes->max_group_size, 16);
  return error;
}
