// Rows of different lengths, one after another, and the same rows padded to one length. PyTorch has these two for the
// CPU and for CUDA alone; here they are composed of operators that the device has. Called on any thread, with or
// without the GIL.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <optional>
#include <vector>

namespace openreg {
namespace {

// LITERALINCLUDE START: jagged-composed
// Where each row begins, and where the last one ends, as numbers that can count all values.
at::Tensor offsets_of(const char* operation, at::TensorList offsets) {
  TORCH_CHECK_VALUE(offsets.size() == 1, operation, ": expected offsets of one dimension, got those of ",
                    offsets.size());
  TORCH_CHECK_VALUE(offsets[0].dim() == 1 && offsets[0].numel() > 0, operation,
                    ": expected offsets as a vector of at least one element, got the shape ", offsets[0].sizes());
  return offsets[0].to(at::kLong);
}

// schema: aten::_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths,
//         float padding_value=0.0) -> Tensor
//
// Of a row that is longer than `max_lengths`, the rest is left out.
at::Tensor jagged_to_padded(const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
                            double padding) {
  const at::Tensor bounds = offsets_of("_jagged_to_padded_dense_forward", offsets);
  TORCH_CHECK_VALUE(values.dim() > 0, "_jagged_to_padded_dense_forward: expected values of at least one dimension");
  const int64_t rows = bounds.numel() - 1;
  const int64_t length = max_lengths.at(0);
  std::vector<int64_t> shape = values.sizes().vec();
  shape[0] = length;
  shape.insert(shape.begin(), rows);
  const at::Tensor places = bounds.narrow(0, 0, rows).unsqueeze(1) + at::arange(length, bounds.options());
  at::Tensor is_padding = places >= bounds.narrow(0, 1, rows).unsqueeze(1);
  // Padding reads any value, and others their own: offsets that end behind the values have an index that is refused.
  const bool is_empty = values.size(0) == 0;
  const at::Tensor index = (is_empty ? places + 1 : places).masked_fill(is_padding, 0).flatten();
  while (is_padding.dim() < static_cast<int64_t>(shape.size())) is_padding = is_padding.unsqueeze(-1);
  std::vector<int64_t> one_value = values.sizes().vec();
  one_value[0] = 1;
  const at::Tensor read = is_empty ? at::zeros(one_value, values.options()) : values;
  return read.index_select(0, index).view(shape).masked_fill(is_padding, padding);
}

// schema: aten::_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, SymInt? total_L=None) -> Tensor
//
// Waits for the device if the caller does not know the number of values, `total`.
at::Tensor padded_to_jagged(const at::Tensor& dense, at::TensorList offsets, std::optional<int64_t> total) {
  const at::Tensor bounds = offsets_of("_padded_dense_to_jagged_forward", offsets);
  const int64_t rows = bounds.numel() - 1;
  const int64_t length = dense.size(1);
  if (!total.has_value()) total = bounds[rows].item<int64_t>();
  const at::Tensor starts = bounds.narrow(0, 0, rows);
  const at::Tensor row = at::repeat_interleave(bounds.narrow(0, 1, rows) - starts, total);
  const at::Tensor place = at::arange(*total, bounds.options()) - starts.index_select(0, row);
  // A value that is not in the padded rows has an index that is refused, instead of one in the next row.
  const at::Tensor index = at::where(place < length, row * length + place, dense.size(0) * length);
  return dense.flatten(0, 1).index_select(0, index);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_jagged_to_padded_dense_forward", jagged_to_padded);
  m.impl("_padded_dense_to_jagged_forward", padded_to_jagged);
}
// LITERALINCLUDE END: jagged-composed

}  // namespace
}  // namespace openreg
