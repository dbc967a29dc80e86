// The operators under cummax and cummin, which return nothing and write into two of their arguments. Called on any
// thread, with or without the GIL; the library runs on the device's stream.
#include <ATen/ops/_cummax_helper.h>
#include <ATen/ops/_cummin_helper.h>
#include <torch/library.h>

#include <array>

#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: running-extremes
template <bool kLargest>
struct RunningExtreme : LibraryKernel<RunningExtreme<kLargest>, /*kWaits=*/true> {
  static constexpr auto kName = kLargest ? "_cummax_helper" : "_cummin_helper";
  static constexpr auto kOnOneDevice = std::array{"self", "values", "indices"};
  static constexpr auto kOutputs = 2;

  static void compute(const at::Tensor& self, int64_t dim, at::Tensor& values, at::Tensor& indices) {
    kLargest ? at::_cummax_helper(self, values, indices, dim) : at::_cummin_helper(self, values, indices, dim);
  }
  // schema: aten::_cummax_helper(Tensor self, Tensor(a!) values, Tensor(b!) indices, int dim) -> ()
  static void call(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
    check_one_device<RunningExtreme>(self, values, indices);
    const OnDevice current(self.device());
    RunningExtreme::enqueue(GivenOutputs<2>({&values, &indices}), self, dim);
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_cummax_helper", RunningExtreme<true>::call);
  m.impl("_cummin_helper", RunningExtreme<false>::call);
}
// LITERALINCLUDE END: running-extremes

}  // namespace
}  // namespace openreg
