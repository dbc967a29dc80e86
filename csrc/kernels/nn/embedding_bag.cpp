// Embedding bags: sums, means and maxima of rows of a table, and their derivatives, on the library (see
// host_library.h). Called on any thread, with or without the GIL; the library runs on the device's stream.
#include <ATen/TensorMeta.h>
#include <ATen/ops/_embedding_bag.h>
#include <ATen/ops/_embedding_bag_backward_native.h>
#include <ATen/ops/_embedding_bag_dense_backward.h>
#include <ATen/ops/_embedding_bag_per_sample_weights_backward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <array>
#include <tuple>

#include "aten/optional_tensor.h"
#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {
namespace {

using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// LITERALINCLUDE START: embedding-bag-none
// An index without a bag adds nothing to a sum. But the derivative, the maximum and a sum without some index look up
// its bag, and read beyond an empty table.
void check_bags(int64_t bags, const at::Tensor& indices) {
  TORCH_CHECK(bags > 0 || indices.numel() == 0, "embedding_bag: got ", indices.numel(),
              " indices and no bag: give the offset at which each bag begins, the first at 0");
}
// LITERALINCLUDE END: embedding-bag-none

// With include_last_offset, indices behind the last offset are in no bag. The library's derivatives would read a
// gradient for them, past the end of all.
void check_bag_of_each(const at::Tensor& offset2bag, int64_t bags) {
  if (offset2bag.numel() == 0) return;
  const auto first = offset2bag.min().item<int64_t>();
  const auto last = offset2bag.max().item<int64_t>();
  TORCH_CHECK(first >= 0 && last < bags, "embedding_bag: there are ", bags, " bags, and an index is in bag ",
              first < 0 ? first : last, ": with include_last_offset, the last offset must be the number of indices");
}

// The library's derivatives check no index.
void check_rows(const at::Tensor& indices, int64_t rows) {
  if (indices.numel() == 0) return;
  const auto least = indices.min().item<int64_t>();
  const auto most = indices.max().item<int64_t>();
  TORCH_CHECK(least >= 0 && most < rows, "embedding_bag: expected indices from 0 to ", rows - 1, ", but got ",
              least < 0 ? least : most);
}

void check_last_offset(const at::Tensor& offsets, int64_t bags, int64_t indices) {
  if (offsets.numel() <= bags) return;
  const auto last = offsets[bags].item<int64_t>();
  TORCH_CHECK(last >= indices, "embedding_bag: there are ", indices, " indices, and the last offset is ", last,
              ": with include_last_offset, the last offset must be the number of indices");
}

// LITERALINCLUDE START: embedding-bag-forward
// The bag of each index: the number of bags that have begun, less one. An offset may be that of the end.
at::Tensor bags_of(const at::Tensor& offsets, int64_t indices) {
  const at::Tensor begun = at::zeros({indices + 1}, offsets.options());
  begun.index_add_(0, offsets, at::ones_like(offsets));
  return begun.cumsum(0).narrow(0, 0, indices).sub_(1);
}

// schema: aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int
// mode=0,
//         bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1)
//         -> (Tensor, Tensor, Tensor, Tensor)
//
// Besides the result, for the derivative: the bag of each index, the size of each bag, and the indices of the maxima.
// The sizes are those that PyTorch predicts for every device but the CPU, and that generated code checks: the second
// has a place for the last offset, too, and the third is empty without a maximum. The CPU leaves out the first after a
// sum.
struct EmbeddingBagMeta : at::impl::MetaBase {
  void meta(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool, int64_t mode, bool,
            at::OptionalTensorRef, bool include_last_offset, int64_t padding_idx) {
    TORCH_CHECK(weight.dim() == 2 && indices.dim() == 1 && offsets.dim() == 1, "embedding_bag: expected a table of 2 ",
                "dimensions, and indices and offsets of 1, but got shapes ", weight.sizes(), ", ", indices.sizes(),
                " and ", offsets.sizes());
    TORCH_CHECK(mode >= kSum && mode <= kMax, "embedding_bag: expected a mode of 0, 1 or 2, but got ", mode);
    TORCH_CHECK(!include_last_offset || offsets.size(0) > 0, "embedding_bag: include_last_offset: expected at least ",
                "one offset");
    const at::TensorOptions counts =
        offsets.options().dtype(c10::promoteTypes(indices.scalar_type(), offsets.scalar_type()));
    const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0);
    if (mode == kMax || padding_idx >= 0) check_bags(bags, indices);
    set_output_raw_strided(0, {bags, weight.size(1)}, {}, weight.options());
    set_output_raw_strided(1, indices.sizes(), {}, counts);
    set_output_raw_strided(2, offsets.sizes(), {}, counts);
    if (mode == kMax) {
      set_output_raw_strided(3, {bags, weight.size(1)}, {}, counts);
    } else {
      set_output_raw_strided(3, {0}, {}, counts);
    }
  }
  static constexpr int64_t kSum = 0;
  static constexpr int64_t kMax = 2;
};

// The library rejects some values of indices and offsets.
struct EmbeddingBag : LibraryKernel<EmbeddingBag, /*kWaits=*/true> {
  using Meta = EmbeddingBagMeta;
  static constexpr auto kName = "_embedding_bag";
  static constexpr auto kOnOneDevice = std::array{"weight",
                                                  "indices",
                                                  "offsets",
                                                  "scale_grad_by_freq",
                                                  "mode",
                                                  "sparse",
                                                  "per_sample_weights",
                                                  "include_last_offset",
                                                  "padding_idx"};
  static constexpr auto kOutputs = 4;

  static void compute(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                      bool scale_grad_by_freq, int64_t mode, bool sparse, const OptionalTensor& per_sample_weights,
                      bool include_last_offset, int64_t padding_idx, at::Tensor& output, at::Tensor& bag_of_each,
                      at::Tensor& bag_size, at::Tensor& maximum_indices) {
    const auto [sums, bags, counts, places] =
        at::_embedding_bag(weight.contiguous(), indices.contiguous(), offsets.contiguous(), scale_grad_by_freq, mode,
                           sparse, per_sample_weights, include_last_offset, padding_idx);
    output.copy_(sums);
    bag_of_each.copy_(
        bags.numel() == indices.numel() ? bags : bags_of(offsets.to(bag_of_each.scalar_type()), indices.numel()));
    bag_size.zero_().narrow(0, 0, output.size(0)).copy_(counts.narrow(0, 0, output.size(0)));
    if (mode == EmbeddingBagMeta::kMax) maximum_indices.copy_(places);
  }
};
// LITERALINCLUDE END: embedding-bag-forward

// LITERALINCLUDE START: embedding-bag-backward
// schema: aten::_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size,
//         Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights,
//         int padding_idx=-1) -> Tensor
struct EmbeddingBagBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor&, const at::Tensor&, const at::Tensor&,
            int64_t rows, const auto&...) {
    check_bags(grad.size(0), indices);
    set_output_raw_strided(0, {rows, grad.size(1)}, {}, grad.options());
  }
};

struct EmbeddingBagBackward : LibraryKernel<EmbeddingBagBackward, /*kWaits=*/true> {
  using Meta = EmbeddingBagBackwardMeta;
  static constexpr auto kName = "_embedding_bag_dense_backward";
  static constexpr auto kOnOneDevice = std::array{"grad",
                                                  "indices",
                                                  "offset2bag",
                                                  "bag_size",
                                                  "maximum_indices",
                                                  "num_weights",
                                                  "scale_grad_by_freq",
                                                  "mode",
                                                  "per_sample_weights",
                                                  "padding_idx"};
  static constexpr auto kOutputs = 1;

  static void compute(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                      const at::Tensor& bag_size, const at::Tensor& maximum_indices, int64_t rows,
                      bool scale_grad_by_freq, int64_t mode, const OptionalTensor& per_sample_weights,
                      int64_t padding_idx, at::Tensor& result) {
    check_bag_of_each(offset2bag, grad.size(0));
    check_rows(indices, rows);
    result.copy_(at::_embedding_bag_dense_backward(grad.contiguous(), indices.contiguous(), offset2bag, bag_size,
                                                   maximum_indices, rows, scale_grad_by_freq, mode, per_sample_weights,
                                                   padding_idx));
  }
};
// LITERALINCLUDE END: embedding-bag-backward

// LITERALINCLUDE START: embedding-bag-weights
// schema: aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offsets,
//         Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor
struct BagWeightsBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad, const at::Tensor&, const at::Tensor& indices, const auto&...) {
    check_bags(grad.size(0), indices);
    set_output_raw_strided(0, {indices.numel()}, {}, grad.options());
  }
};

struct BagWeightsBackward : LibraryKernel<BagWeightsBackward, /*kWaits=*/true> {
  using Meta = BagWeightsBackwardMeta;
  static constexpr auto kName = "_embedding_bag_per_sample_weights_backward";
  static constexpr auto kOnOneDevice =
      std::array{"grad", "weight", "indices", "offsets", "offset2bag", "mode", "padding_idx"};
  static constexpr auto kOutputs = 1;

  static void compute(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& indices,
                      const at::Tensor& offsets, const at::Tensor& offset2bag, int64_t mode, int64_t padding_idx,
                      at::Tensor& result) {
    check_last_offset(offsets, grad.size(0), indices.numel());
    check_bag_of_each(offset2bag, grad.size(0));
    check_rows(indices, weight.size(0));
    result.copy_(
        at::_embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, offset2bag, mode, padding_idx));
  }
};
// LITERALINCLUDE END: embedding-bag-weights

// LITERALINCLUDE START: embedding-bag-registration
FourTensors embedding_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                          bool scale_grad_by_freq, int64_t mode, bool sparse, const OptionalTensor& per_sample_weights,
                          bool include_last_offset, int64_t padding_idx) {
  return functional<EmbeddingBag>(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                                  include_last_offset, padding_idx);
}

at::Tensor embedding_bag_dense_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                                        const at::Tensor& bag_size, const at::Tensor& maximum_indices,
                                        int64_t num_weights, bool scale_grad_by_freq, int64_t mode,
                                        const OptionalTensor& per_sample_weights, int64_t padding_idx) {
  return functional<EmbeddingBagBackward>(grad, indices, offset2bag, bag_size, maximum_indices, num_weights,
                                          scale_grad_by_freq, mode, per_sample_weights, padding_idx);
}

at::Tensor bag_weights_backward(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& indices,
                                const at::Tensor& offsets, const at::Tensor& offset2bag, int64_t mode,
                                int64_t padding_idx) {
  return functional<BagWeightsBackward>(grad, weight, indices, offsets, offset2bag, mode, padding_idx);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_embedding_bag", embedding_bag);
  m.impl("_embedding_bag_forward_only", embedding_bag);
  // PyTorch's own for CUDA and the CPU: it computes the bags, and calls the dense one, or makes a sparse gradient.
  m.impl("_embedding_bag_backward", at::native::_embedding_bag_backward_symint);
  m.impl("_embedding_bag_dense_backward", embedding_bag_dense_backward);
  m.impl("_embedding_bag_per_sample_weights_backward", bag_weights_backward);
}
// LITERALINCLUDE END: embedding-bag-registration

}  // namespace
}  // namespace openreg
