// openreg_stable::rms_norm, a custom operator whose library works with later PyTorch releases without a rebuild: the
// schema, and all kernels except the device's, which is in kernels/stable/rms_norm.cpp. Called on any thread, with or
// without the GIL.
#include "stable/rms_norm.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/Dispatch_v2.h>

namespace openreg_stable {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// LITERALINCLUDE START: stable-check
bool is_floating(ScalarType dtype) {
  return dtype == ScalarType::Float || dtype == ScalarType::Double || dtype == ScalarType::Half ||
         dtype == ScalarType::BFloat16;
}

// The checks that do not turn a symbolic size into a constant.
void check_dtypes_and_dimensions(const Tensor& input, const Tensor& weight) {
  const ScalarType dtype = input.scalar_type();
  STD_TORCH_CHECK(is_floating(dtype), "openreg: rms_norm takes float, double, half or bfloat16, got ", dtype);
  STD_TORCH_CHECK(weight.scalar_type() == dtype, "openreg: the weight of rms_norm has the dtype of its input, ", dtype,
                  ", got ", weight.scalar_type());
  STD_TORCH_CHECK(input.dim() > 0 && weight.dim() == 1,
                  "openreg: rms_norm takes an input of one or more dimensions and a weight of one, got ", input.dim(),
                  " and ", weight.dim());
}

}  // namespace

void check_rms_norm(const Tensor& input, const Tensor& weight) {
  check_dtypes_and_dimensions(input, weight);
  STD_TORCH_CHECK(weight.size(0) == input.size(-1),
                  "openreg: the weight of rms_norm has one element for each of the input's last dimension, ",
                  input.size(-1), ", got ", weight.size(0));
}
// LITERALINCLUDE END: stable-check

namespace {

// LITERALINCLUDE START: stable-cpu-and-meta
constexpr int64_t kElementsPerTask = 32768;  // with less, a thread costs more than it saves

// schema: openreg_stable::rms_norm(Tensor input, Tensor weight, float eps) -> Tensor
Tensor rms_norm_cpu(const Tensor& input, const Tensor& weight, double eps) {
  check_rms_norm(input, weight);
  const Tensor dense = torch::stable::contiguous(input);
  const Tensor dense_weight = torch::stable::contiguous(weight);
  Tensor output = torch::stable::empty_like(dense);
  if (input.numel() > 0) {
    THO_DISPATCH_V2(input.scalar_type(), "rms_norm", AT_WRAP([&] {
                      const auto work = rms_norm_rows<scalar_t>(output, dense, dense_weight, eps);
                      torch::stable::parallel_for(0, work.rows, 1 + kElementsPerTask / work.columns,
                                                  [&](int64_t first, int64_t last) { work.run(first, last); });
                    }),
                    AT_FLOATING_TYPES, ScalarType::Half, ScalarType::BFloat16);
  }
  return output;
}

// The result is contiguous, whatever the input is: that is part of the contract, and every kernel keeps it.
Tensor rms_norm_meta(const Tensor& input, const Tensor& weight, double) {
  check_dtypes_and_dimensions(input, weight);
  return torch::stable::empty_like(torch::stable::contiguous(input));
}
// LITERALINCLUDE END: stable-cpu-and-meta

// LITERALINCLUDE START: stable-registrations
STABLE_TORCH_LIBRARY(openreg_stable, m) { m.def("rms_norm(Tensor input, Tensor weight, float eps) -> Tensor"); }

STABLE_TORCH_LIBRARY_IMPL(openreg_stable, CPU, m) { m.impl("rms_norm", TORCH_BOX(&rms_norm_cpu)); }

STABLE_TORCH_LIBRARY_IMPL(openreg_stable, Meta, m) { m.impl("rms_norm", TORCH_BOX(&rms_norm_meta)); }
// LITERALINCLUDE END: stable-registrations

}  // namespace
}  // namespace openreg_stable
