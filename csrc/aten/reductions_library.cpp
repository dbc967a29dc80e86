// Reductions on the library, with meta functions of our own (see lookup.cpp): standard deviation and variance, and what
// makes one number of a whole tensor. Called on any thread, with or without the GIL; the library runs on the device's
// stream.
#include <ATen/TensorMeta.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/std.h>
#include <ATen/ops/std_mean.h>
#include <ATen/ops/var.h>
#include <ATen/ops/var_mean.h>
#include <torch/library.h>

#include <optional>

#include "aten/host_library.h"
#include "aten/structured.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: reductions-deviation
// The deviation is real, also that of complex numbers. Their mean, where there is one, is complex.
template <bool kWithMean>
struct DeviationMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::OptionalIntArrayRef dim, at::OptionalScalarRef, bool keepdim) {
    at::meta::resize_reduction(*this, self, dim, keepdim, c10::toRealValueType(self.scalar_type()));
    if constexpr (kWithMean) {
      set_output_raw_strided(1, maybe_get_output(0).sizes(), {}, self.options());
    }
  }
};

template <bool kRoot, bool kWithMean>
struct Deviation : LibraryKernel<Deviation<kRoot, kWithMean>, /*kWaits=*/false> {
  using Meta = DeviationMeta<kWithMean>;
  static constexpr auto kName = kWithMean ? (kRoot ? "std_mean" : "var_mean") : (kRoot ? "std" : "var");
  static constexpr auto kOutputs = kWithMean ? 2 : 1;

  static void compute(const at::Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
                      bool keepdim, at::Tensor& out) {
    kRoot ? at::std_out(out, self, dim, correction, keepdim) : at::var_out(out, self, dim, correction, keepdim);
  }
  static void compute(const at::Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
                      bool keepdim, at::Tensor& out, at::Tensor& mean) {
    kRoot ? at::std_mean_out(out, mean, self, dim, correction, keepdim)
          : at::var_mean_out(out, mean, self, dim, correction, keepdim);
  }
  // A tensor, or the tensor and its mean.
  static auto functional(const at::Tensor& self, at::OptionalIntArrayRef dim,
                         const std::optional<at::Scalar>& correction, bool keepdim) {
    return openreg::functional<Deviation>(self, dim, correction, keepdim);
  }
};
// LITERALINCLUDE END: reductions-deviation

// LITERALINCLUDE START: reductions-whole
template <bool kLargest>
struct ExtremeMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self) {
    TORCH_CHECK(self.numel() > 0, kLargest ? "max" : "min",
                "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
                "'dim' argument.");
    set_output_raw_strided(0, {}, {}, self.options());
  }
};

template <bool kLargest>
struct Extreme : LibraryKernel<Extreme<kLargest>, /*kWaits=*/false> {
  using Meta = ExtremeMeta<kLargest>;
  static constexpr auto kName = kLargest ? "max" : "min";
  static constexpr auto kOutputs = 1;

  static void compute(const at::Tensor& self, at::Tensor& out) {
    kLargest ? at::max_out(out, self) : at::min_out(out, self);
  }
  static at::Tensor functional(const at::Tensor& self) { return openreg::functional<Extreme>(self); }
};

// Whole numbers are multiplied as int64, unless the caller says otherwise.
struct ProductMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
    const bool whole = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
    set_output_raw_strided(0, {}, {}, self.options().dtype(dtype.value_or(whole ? at::kLong : self.scalar_type())));
  }
};

struct Product : LibraryKernel<Product, /*kWaits=*/false> {
  using Meta = ProductMeta;
  static constexpr auto kName = "prod";
  static constexpr auto kOutputs = 1;

  static void compute(const at::Tensor& self, std::optional<at::ScalarType> dtype, at::Tensor& out) {
    at::prod_out(out, self, dtype);
  }
  static at::Tensor functional(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
    return openreg::functional<Product>(self, dtype);
  }
};
// LITERALINCLUDE END: reductions-whole

// schema: aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
// schema: aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)
//         -> (Tensor, Tensor)
// schema: aten::max(Tensor self) -> Tensor
// schema: aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("std.correction", Deviation<true, false>::functional);
  m.impl("var.correction", Deviation<false, false>::functional);
  m.impl("std_mean.correction", Deviation<true, true>::functional);
  m.impl("var_mean.correction", Deviation<false, true>::functional);
  m.impl("max", Extreme<true>::functional);
  m.impl("min", Extreme<false>::functional);
  m.impl("prod", Product::functional);
}

}  // namespace
}  // namespace openreg
