// The strided copy as a kernel. Its loop is PyTorch's CPU copy over the device's bytes, in place of a vendor's strided
// copy kernel; a vendor needs the code around it as well.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <atomic>

#include "aten/strided_copy.h"
#include "kernels/host_view.h"
#include "kernels/launch.h"
#include "kernels/library/library_scope.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: copy-check-dtypes
// Raises PyTorch's error for dtypes whose elements it cannot copy or convert (bits8, int4 ...). In the kernel it would
// come too late: a queued kernel can report an error only at the next wait. PyTorch has no list of such dtypes, so one
// element of each pair is copied on the host, once.
void check_dtypes(at::ScalarType to, at::ScalarType from) {
  constexpr auto count = static_cast<size_t>(at::ScalarType::NumOptions);
  static std::array<std::array<std::atomic<bool>, count>, count> allowed{};
  std::atomic<bool>& pair = allowed.at(static_cast<size_t>(to)).at(static_cast<size_t>(from));
  if (!pair.load(std::memory_order_relaxed)) {
    at::empty({1}, at::dtype(to)).copy_(at::empty({1}, at::dtype(from)));
    pair.store(true, std::memory_order_relaxed);
  }
}
// LITERALINCLUDE END: copy-check-dtypes

}  // namespace

// LITERALINCLUDE START: copy-kernel
void strided_copy(const at::Tensor& dst, const at::Tensor& src) {
  check_dtypes(dst.scalar_type(), src.scalar_type());
  launch("strided_copy", dst.device().index(), dst.nbytes() + src.nbytes(),
         [dst_view = host_view(dst), src_view = host_view(src)] {
           const LibraryScope scope;
           dst_view.copy_(src_view);
         });
}
// LITERALINCLUDE END: copy-kernel

}  // namespace openreg
