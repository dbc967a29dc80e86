// Convolution in a build without kernels: all of it on the CPU.
#include <torch/library.h>

#include "aten/fallback/convolution.h"

namespace openreg {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", convolution_on_cpu);
  m.impl("convolution_backward_overrideable", convolution_backward_on_cpu);
}

}  // namespace
}  // namespace openreg
