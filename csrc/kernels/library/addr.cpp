// The out= overload of addr. Its loop is the library's (addr_stub, in structured.toml). Called on any thread, with or
// without the GIL.
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/addr_native.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <torch/library.h>

#include <array>
#include <cstdint>

// LITERALINCLUDE START: addr-out
namespace openreg {
namespace {

// PyTorch's addr_out rejects `beta=True` unless the result is bool, and `beta=1.5` if the result is integral. It takes
// the result's dtype from the iterator. On the CPU, whose iterator computes in a temporary, that is the common dtype of
// the inputs. On a device it is the dtype of `out`, which would then decide which numbers are rejected: if the two
// differ, math_addr_out computes in the common dtype, and copies. math_addr_out would also broadcast `self`, which
// addr_ must not. Sizes that do not fit in place are left to addr_out, which raises.
at::Tensor& addr_out(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                     const at::Scalar& alpha, at::Tensor& out) {
  const std::array<at::Tensor, 3> inputs{self, vec1, vec2};
  const at::ScalarType common = at::native::result_type(at::ITensorListRef(inputs));
  const bool converts = out.scalar_type() != common && at::canCast(common, out.scalar_type());
  const std::array<int64_t, 2> shape{vec1.numel(), vec2.numel()};
  const bool fits = !out.is_same(self) || self.sizes() == at::IntArrayRef(shape);
  return converts && fits ? at::native::math_addr_out(self, vec1, vec2, beta, alpha, out)
                          : at::native::addr_out(self, vec1, vec2, beta, alpha, out);
}

// schema: aten::addr.out(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out)
//   -> Tensor(a!)
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("addr.out", addr_out); }

}  // namespace
}  // namespace openreg
// LITERALINCLUDE END: addr-out
