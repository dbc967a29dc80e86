// In a build without kernels: operators whose composite kernel in PyTorch does not suit the fallback.
#include <torch/library.h>

#include "aten/fallback/fallback.h"

namespace openreg {
namespace {

// That of the two losses hands its `out` overload an output of the wrong shape, which the CPU resizes, and warns the
// user. That of mode with `out` knows three devices by name.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"mse_loss", "smooth_l1_loss", "mode.values"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
  }
}

}  // namespace
}  // namespace openreg
