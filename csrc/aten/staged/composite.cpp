// In a build without kernels: operators whose composite kernel in PyTorch does not suit the fallback.
#include <ATen/ops/isin.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include "aten/fallback/fallback.h"

namespace openreg {
namespace {

// isin of a number: PyTorch's meta function gives the result a wrong shape. With a tensor in its place it is right.
at::Tensor isin_number(const at::Scalar& element, const at::Tensor& test_elements, bool assume_unique, bool invert) {
  return at::isin(at::scalar_tensor(element, test_elements.options()), test_elements, assume_unique, invert);
}

at::Tensor& isin_number_out(const at::Scalar& element, const at::Tensor& test_elements, bool assume_unique, bool invert,
                            at::Tensor& out) {
  return at::isin_out(out, at::scalar_tensor(element, test_elements.options()), test_elements, assume_unique, invert);
}

// That of the two losses hands its `out` overload an output of the wrong shape, which the CPU resizes, and warns the
// user. That of mode with `out` knows three devices by name.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"mse_loss", "smooth_l1_loss", "mode.values"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
  }
  m.impl("isin.Scalar_Tensor", isin_number);
  m.impl("isin.Scalar_Tensor_out", isin_number_out);
}

}  // namespace
}  // namespace openreg
