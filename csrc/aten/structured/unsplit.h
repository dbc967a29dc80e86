// Shape inference for non-structured operators, which PyTorch has not split in two. structured.toml assigns one of
// these classes to each operator, and generate_structured.py joins it with the rest.
//
// A function here only computes sizes. Any other error is raised by PyTorch's CPU function while it computes, and the
// call waits for it.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorMeta.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/Pool.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/add.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/result_type.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace openreg {

// LITERALINCLUDE START: unsplit-like
// The strides of an output that is laid out like a tensor.
inline at::DimVector strides_of(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) {
    return at::DimVector(tensor.strides());
  }
  return at::DimVector(at::infer_dense_strides(tensor.sizes(), tensor.strides()));
}

// The order of an output's elements in memory: row by row, in the order of an argument, or in its memory format.
enum class Order { kRows, kKept, kFormat };

// Outputs with the sizes and the dtype of one argument.
template <size_t kArgument, Order kOrder = Order::kRows, size_t kOutputs = 1>
struct LikeMeta : at::impl::MetaBase {
  void meta(const auto&... arguments) {
    const at::Tensor& model = std::get<kArgument>(std::tie(arguments...));
    const at::DimVector strides = kOrder == Order::kKept ? strides_of(model) : at::DimVector();
    at::TensorOptions options = model.options();
    if (kOrder == Order::kFormat) {
      options = options.memory_format(model.suggest_memory_format());
    }
    for (size_t i = 0; i < kOutputs; ++i) {
      set_output_raw_strided(static_cast<int64_t>(i), model.sizes(), strides, options);
    }
  }
};

using LikeFirstMeta = LikeMeta<0>;
using LikeFirstInItsOrderMeta = LikeMeta<0, Order::kKept>;
using TwoLikeFirstMeta = LikeMeta<0, Order::kRows, 2>;
using LikeSecondMeta = LikeMeta<1>;
using LikeSecondInItsOrderMeta = LikeMeta<1, Order::kKept>;
using LikeSecondInItsFormatMeta = LikeMeta<1, Order::kFormat>;
// LITERALINCLUDE END: unsplit-like

// LITERALINCLUDE START: unsplit-reductions
// The dtype of a sum or product: integers accumulate as int64, unless the caller says otherwise.
inline at::ScalarType sum_dtype(const at::Tensor& self, const at::Tensor& out, std::optional<at::ScalarType> asked) {
  if (asked) {
    return *asked;
  }
  if (out.defined()) {
    return out.scalar_type();
  }
  return at::isIntegralType(self.scalar_type(), /*includeBool=*/true) ? at::kLong : self.scalar_type();
}

// One number for a whole tensor: dot, median ...
struct NumberMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, const auto&...) { set_output_raw_strided(0, {}, {}, self.options()); }
};

struct TraceMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self) {
    set_output_raw_strided(0, {}, {}, self.options().dtype(sum_dtype(self, {}, std::nullopt)));
  }
};

struct ProductMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
    set_output_raw_strided(0, {}, {}, self.options().dtype(sum_dtype(self, {}, dtype)));
  }
};

// The dtype of an output: that of a given output, if the result can be cast to it, or else the computed one.
inline at::ScalarType given_dtype(at::ScalarType computed, const at::Tensor& out) {
  if (!out.defined()) {
    return computed;
  }
  TORCH_CHECK(at::canCast(computed, out.scalar_type()), "result type ", computed,
              " can't be cast to the desired output type ", out.scalar_type());
  return out.scalar_type();
}

enum class Extreme { kMin, kMax };

template <Extreme kExtreme>
struct ExtremeMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self) {
    TORCH_CHECK(self.numel() > 0, kExtreme == Extreme::kMax ? "max" : "min",
                "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
                "'dim' argument.");
    set_output_raw_strided(0, {}, {}, self.options().dtype(given_dtype(self.scalar_type(), maybe_get_output(0))));
  }
};

using MaxMeta = ExtremeMeta<Extreme::kMax>;
using MinMeta = ExtremeMeta<Extreme::kMin>;

struct NansumMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype) {
    at::meta::resize_reduction(*this, self, dim, keepdim, sum_dtype(self, maybe_get_output(0), dtype));
  }
};

struct CountMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef dim) {
    at::meta::resize_reduction(*this, self, dim, /*keepdim=*/false, at::kLong);
  }
};

// The standard deviation is real, even that of complex numbers.
struct DeviationMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::OptionalIntArrayRef dim, at::OptionalScalarRef, bool keepdim) {
    const at::ScalarType real = c10::toRealValueType(self.scalar_type());
    at::meta::resize_reduction(*this, self, dim, keepdim, given_dtype(real, maybe_get_output(0)));
  }
};

// The mean of complex numbers is complex.
struct DeviationAndMeanMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::OptionalIntArrayRef dim, at::OptionalScalarRef, bool keepdim) {
    at::meta::resize_reduction(*this, self, dim, keepdim, c10::toRealValueType(self.scalar_type()));
    set_output_raw_strided(1, maybe_get_output(0).sizes(), {}, self.options());
  }
};

// For each row along a dimension, a number and its index.
struct PlaceMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, int64_t dim, bool keepdim) {
    at::meta::resize_reduction_with_indices(*this, self, dim, keepdim, self.scalar_type());
  }
  // kthvalue, whose output must not overlap its input: it would be resized before it is read.
  void meta(const at::Tensor& self, int64_t, int64_t dim, bool keepdim) {
    if (const at::Tensor& values = maybe_get_output(0); values.defined()) {
      at::assert_no_overlap(self, values);
    }
    meta(self, dim, keepdim);
  }
};
// LITERALINCLUDE END: unsplit-reductions

// LITERALINCLUDE START: unsplit-windows
// Replaces the last N sizes of an image, or of a batch of images.
template <size_t N>
at::DimVector with_last(const at::Tensor& self, at::IntArrayRef last) {
  TORCH_CHECK(last.size() == N, "Expected ", N, " output sizes, but got ", last);
  TORCH_CHECK(self.dim() == N + 1 || self.dim() == N + 2, "Expected ", N + 1, "D or ", N + 2,
              "D tensor, but got: ", self.sizes());
  at::DimVector sizes(self.sizes());
  std::copy(last.begin(), last.end(), sizes.end() - N);
  return sizes;
}

// Images keep their memory format; the CPU's functions write volumes row by row.
template <size_t N>
at::TensorOptions window_options(const at::Tensor& self) {
  return N == 2 ? self.options().memory_format(self.suggest_memory_format()) : self.options();
}

// The output sizes are an argument.
template <size_t N>
struct AdaptivePoolMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef output_size) {
    set_output_raw_strided(0, with_last<N>(self, output_size), {}, window_options<N>(self));
  }
};

using AdaptivePool2dMeta = AdaptivePoolMeta<2>;
using AdaptivePool3dMeta = AdaptivePoolMeta<3>;

template <size_t N>
struct UnpoolMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor&, at::IntArrayRef output_size, const auto&...) {
    set_output_raw_strided(0, with_last<N>(self, output_size), {}, window_options<N>(self));
  }
};

using Unpool2dMeta = UnpoolMeta<2>;
using Unpool3dMeta = UnpoolMeta<3>;

// A sliding window. A single number means three equal ones, and the stride defaults to the window's size.
struct MaxPool3dMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
            at::IntArrayRef dilation, bool ceil_mode) {
    const auto check = [](at::IntArrayRef numbers, const char* what) {
      TORCH_CHECK(numbers.size() == 1 || numbers.size() == 3, "max_pool3d: ", what);
    };
    check(kernel, "kernel_size must either be a single int, or a tuple of three ints");
    check(stride.empty() ? kernel : stride, "stride must either be omitted, a single int, or a tuple of three ints");
    check(padding, "padding must either be a single int, or a tuple of three ints");
    check(dilation, "dilation must be either a single int, or a tuple of three ints");
    const auto each = [](at::IntArrayRef numbers, int64_t i) { return numbers.size() == 1 ? numbers[0] : numbers[i]; };
    at::DimVector last;
    for (int64_t i = 0; i < 3; ++i) {
      const auto size =
          at::native::pooling_output_shape(self.size(i - 3), each(kernel, i), each(padding, i),
                                           each(stride.empty() ? kernel : stride, i), each(dilation, i), ceil_mode);
      last.push_back(std::max<int64_t>(size, 0));  // The library rejects one that is too small.
    }
    const at::TensorOptions options = self.options().memory_format(self.suggest_memory_format());
    const at::DimVector sizes = with_last<3>(self, last);
    set_output_raw_strided(0, sizes, {}, options);
    set_output_raw_strided(1, sizes, {}, options.dtype(at::kLong));
  }
};

// Padding is listed from the last dimension backward, before and after each.
struct ReflectionPad2dMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef padding) {
    TORCH_CHECK(padding.size() == 4, "padding size is expected to be 4, but got: ", padding.size());
    const at::DimVector last{self.size(-2) + padding[2] + padding[3], self.size(-1) + padding[0] + padding[1]};
    set_output_raw_strided(0, with_last<2>(self, last), {}, window_options<2>(self));
  }
};

// The derivative of a sliding window, with the sizes of the window's input.
struct UnfoldBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad, at::IntArrayRef input_sizes, const auto&...) {
    set_output_raw_strided(0, input_sizes, {}, grad.options());
  }
};

// A gradient for every row of the table, of which the forward read some.
struct EmbeddingBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad, const at::Tensor&, int64_t num_weights, const auto&...) {
    set_output_raw_strided(0, {num_weights, grad.size(-1)}, {}, grad.options());
  }
};
// LITERALINCLUDE END: unsplit-windows

// LITERALINCLUDE START: unsplit-pairs
// The elements of one tensor at the indices that the other holds.
struct TakeMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& index) {
    if (const at::Tensor& out = maybe_get_output(0); out.defined()) {
      at::assert_no_overlap(out, self);
      at::assert_no_overlap(out, index);
    }
    set_output_raw_strided(0, index.sizes(), {}, self.options());
  }
};

// Whether one number is among the elements. PyTorch's meta function infers a result without elements.
struct IsinNumberMeta : at::impl::MetaBase {
  void meta(const at::Scalar&, const at::Tensor& elements, bool, bool) {
    set_output_raw_strided(0, {}, {}, elements.options().dtype(at::kBool));
  }
};

// One result for each pair of elements, laid out like the first tensor. If that is broadcast, the strides depend on
// both: PyTorch's iterator infers them, without memory.
inline void set_like(at::impl::MetaBase& meta, const at::Tensor& first, const at::Tensor& second,
                     const at::TensorOptions& options) {
  const at::DimVector sizes(at::infer_size(first.sizes(), second.sizes()));
  if (first.numel() > 0 && first.sizes() == sizes && first.is_non_overlapping_and_dense()) {
    return meta.set_output_raw_strided(0, sizes, first.strides(), options);
  }
  const auto without_memory = [](const at::Tensor& tensor) {
    return at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(at::kMeta));
  };
  const at::Tensor pairs = at::add(without_memory(first), without_memory(second));
  meta.set_output_raw_strided(0, sizes, pairs.strides(), options);
}

// Complex numbers from two real ones. Any other output dtype is rejected with the CPU's message.
struct ComplexMeta : at::impl::MetaBase {
  void meta(const at::Tensor& first, const at::Tensor& second) {
    const at::ScalarType dtype = c10::toComplexType(first.scalar_type());
    const at::Tensor& out = maybe_get_output(0);
    TORCH_CHECK(!out.defined() || out.scalar_type() == dtype, "Expected object of scalar type ", toString(dtype),
                " but got scalar type ", toString(out.scalar_type()), " for argument 'out'");
    set_like(*this, first, second, first.options().dtype(dtype));
  }
};
// LITERALINCLUDE END: unsplit-pairs

// LITERALINCLUDE START: unsplit-losses
// One loss per element, or one for all.
struct LossMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& target, int64_t reduction, const auto&...) {
    set(self, target, reduction, given_dtype(at::result_type(self, target), maybe_get_output(0)));
  }
  // binary_cross_entropy, the one with weights, converts nothing: a given output must have the dtype.
  void meta(const at::Tensor& self, const at::Tensor& target, at::OptionalTensorRef, int64_t reduction) {
    set(self, target, reduction, at::result_type(self, target));
  }

 private:
  void set(const at::Tensor& self, const at::Tensor& target, int64_t reduction, at::ScalarType dtype) {
    if (reduction != at::Reduction::None) {
      set_output_raw_strided(0, {}, {}, self.options().dtype(dtype));
    } else {
      set_like(*this, self, target, self.options().dtype(dtype));
    }
  }
};

// The same for class targets, with the total weight of the targets as the second output.
struct ClassLoss2dMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& target, at::OptionalTensorRef, int64_t reduction, int64_t) {
    set_output_raw_strided(0, reduction == at::Reduction::None ? target.sizes() : at::IntArrayRef(), {},
                           self.options());
    set_output_raw_strided(1, {}, {}, self.options());
  }
};
// LITERALINCLUDE END: unsplit-losses

// LITERALINCLUDE START: unsplit-factories
// A given output may have any dtype, and any shape with that many elements.
inline void set_count(at::impl::MetaBase& meta, int64_t count) {
  const at::Tensor& out = meta.maybe_get_output(0);
  meta.set_output_raw_strided(0, out.numel() == count ? out.sizes() : at::IntArrayRef(count), {}, out.options());
}

struct ArangeMeta : at::impl::MetaBase {
  void meta(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step) {
    set_count(*this, maybe_get_output(0).scalar_type() == at::kLong
                         ? at::native::compute_arange_size<int64_t>(start, end, step)
                         : at::native::compute_arange_size<double>(start, end, step));
  }
};

struct LinspaceMeta : at::impl::MetaBase {
  void meta(const at::Scalar&, const at::Scalar&, int64_t steps, const auto&...) {
    TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
    set_count(*this, steps);
  }
};

struct EyeMeta : at::impl::MetaBase {
  void meta(int64_t rows, int64_t columns) {
    TORCH_CHECK(rows >= 0, "n must be greater or equal to 0, got ", rows);
    TORCH_CHECK(columns >= 0, "m must be greater or equal to 0, got ", columns);
    set_output_raw_strided(0, {rows, columns}, {}, maybe_get_output(0).options());
  }
  void meta(int64_t rows) { meta(rows, rows); }
};
// LITERALINCLUDE END: unsplit-factories

// LITERALINCLUDE START: unsplit-by-values
// The sizes of these outputs depend on values: the device counts them, and the host waits for the count.
struct NonzeroMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self) {
    const at::Tensor& out = maybe_get_output(0);
    TORCH_CHECK(!out.defined() || out.scalar_type() == at::kLong,
                "Expected out tensor to have scalar type Long but got scalar type", out.scalar_type());
    const auto found = at::count_nonzero(self).item<int64_t>();
    set_output_raw_strided(0, {found, self.dim()}, {1, found}, self.options().dtype(at::kLong));
  }
};

// The form for which nobody waits. The strides are those that PyTorch predicts for most devices, not those of the CPU.
struct NonzeroStaticMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, int64_t size, int64_t) {
    TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    const at::Tensor& out = maybe_get_output(0);
    TORCH_CHECK(!out.defined() || out.scalar_type() == at::kLong,
                "nonzero_static: Expected out tensor to have scalar type Long but got scalar type", out.scalar_type());
    set_output_raw_strided(0, {size, self.dim()}, {1, size}, self.options().dtype(at::kLong));
  }
};

struct MaskedSelectMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& mask) {
    TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
    const at::Tensor& out = maybe_get_output(0);
    TORCH_CHECK(!out.defined() || out.scalar_type() == self.scalar_type(),
                "masked_select(): self and result must have the same scalar type");
    const at::Tensor all = mask.expand(at::infer_size(self.sizes(), mask.sizes()));
    set_output_raw_strided(0, at::count_nonzero(all).item<int64_t>(), {}, self.options());
  }
};

struct RepeatsMeta : at::impl::MetaBase {
  void meta(const at::Tensor& repeats, std::optional<int64_t> output_size) {
    TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
    const int64_t size = repeats.numel() == 0 ? 0
                         : output_size        ? *output_size
                                              : std::max<int64_t>(repeats.sum().item<int64_t>(), 0);
    set_output_raw_strided(0, size, {}, repeats.options());
  }
};
// LITERALINCLUDE END: unsplit-by-values

}  // namespace openreg
