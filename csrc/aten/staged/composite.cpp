// Operators whose composite kernel in PyTorch does not suit the fallback, for a build without kernels.
#include <ATen/ops/isin.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include "aten/fallback/fallback.h"

namespace openreg {
namespace {

// A number on the device, in the dtype in which the two are compared: 0.5 is no integer.
at::Tensor number_beside(const at::Scalar& element, const at::Tensor& test_elements) {
  return at::scalar_tensor(element, test_elements.options().dtype(at::result_type(test_elements, element)));
}

// PyTorch's meta function infers a wrong shape for isin of a number, but the right one for a tensor in its place.
at::Tensor isin_number(const at::Scalar& element, const at::Tensor& test_elements, bool assume_unique, bool invert) {
  return at::isin(number_beside(element, test_elements), test_elements, assume_unique, invert);
}

at::Tensor& isin_number_out(const at::Scalar& element, const at::Tensor& test_elements, bool assume_unique, bool invert,
                            at::Tensor& out) {
  return at::isin_out(out, number_beside(element, test_elements), test_elements, assume_unique, invert);
}

// The composite kernels of the two losses give their `out` overload an output of the wrong shape, which the CPU kernel
// resizes with a warning to the user. That of mode with `out` accepts three devices, by name.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"mse_loss", "smooth_l1_loss", "mode.values"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
  }
  m.impl("isin.Scalar_Tensor", isin_number);
  m.impl("isin.Scalar_Tensor_out", isin_number_out);
}

}  // namespace
}  // namespace openreg
