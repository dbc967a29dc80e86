// index_select on the library. PyTorch's kernel is not structured, so the meta function is ours; the rest is as for
// structured operators (structured.h, host_library.h). Called on any thread, with or without the GIL; the library runs
// on the device's stream.
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorMeta.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/index_select.h>
#include <torch/library.h>

#include <array>

#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

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
    if (const at::Tensor& out = maybe_get_output(0); out.defined()) {
      at::assert_no_overlap(out, self);
      at::assert_no_overlap(out, index);
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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index_select", index_select);
  m.impl("index_select.out", index_select_out);
}

}  // namespace
}  // namespace openreg
