// index_select and the derivative of an embedding, on the library. PyTorch has not split these operators in two, so
// their meta functions are ours; the rest is that of the structured ones (structured.h, host_library.h). Called on any
// thread, with or without the GIL; the library runs on the device's stream.
#include <ATen/TensorMeta.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/index_select.h>
#include <torch/library.h>

#include <array>

#include "aten/host_library.h"
#include "aten/structured.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: lookup-meta
// schema: aten::index_select(Tensor self, int dim, Tensor index) -> Tensor
// schema: aten::index_select.out(Tensor self, int dim, Tensor index, *, Tensor(a!) out) -> Tensor(a!)
struct IndexSelectMeta : at::impl::MetaBase {
  void meta(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
    at::DimVector sizes(self.sizes());
    dim = at::maybe_wrap_dim(dim, self.dim());
    if (!sizes.empty()) {
      sizes[dim] = index.numel();
    }
    set_output_raw_strided(0, sizes, {}, self.options());
  }
};
// LITERALINCLUDE END: lookup-meta

// LITERALINCLUDE START: lookup-kernel
struct IndexSelect : LibraryKernel<IndexSelect, /*kWaits=*/true> {
  using Meta = IndexSelectMeta;
  static constexpr auto kName = "index_select";
  static constexpr auto kOnOneDevice = std::array{"self", "dim", "index"};
  static constexpr auto kOutputs = 1;

  static void compute(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& out) {
    at::index_select_out(out, self, dim, index);
  }
};

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  return functional<IndexSelect>(self, dim, index);
}

at::Tensor& index_select_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& out) {
  out_variant<IndexSelect>({&out}, self, dim, index);
  return out;
}
// LITERALINCLUDE END: lookup-kernel

// schema: aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx,
//         bool scale_grad_by_freq) -> Tensor
struct EmbeddingBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad_output, const at::Tensor&, int64_t num_weights, int64_t, bool) {
    set_output_raw_strided(0, {num_weights, grad_output.size(-1)}, {}, grad_output.options());
  }
};

struct EmbeddingBackward : LibraryKernel<EmbeddingBackward, /*kWaits=*/false> {
  using Meta = EmbeddingBackwardMeta;
  static constexpr auto kName = "embedding_dense_backward";
  static constexpr auto kOnOneDevice =
      std::array{"grad_output", "indices", "num_weights", "padding_idx", "scale_grad_by_freq"};
  static constexpr auto kOutputs = 1;

  static void compute(const at::Tensor& grad_output, const at::Tensor& indices, int64_t num_weights,
                      int64_t padding_idx, bool scale_grad_by_freq, at::Tensor& grad_weight) {
    at::embedding_dense_backward_out(grad_weight, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq);
  }
};

at::Tensor embedding_dense_backward(const at::Tensor& grad_output, const at::Tensor& indices, int64_t num_weights,
                                    int64_t padding_idx, bool scale_grad_by_freq) {
  return functional<EmbeddingBackward>(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index_select", index_select);
  m.impl("index_select.out", index_select_out);
  m.impl("embedding_dense_backward", embedding_dense_backward);
}

}  // namespace
}  // namespace openreg
