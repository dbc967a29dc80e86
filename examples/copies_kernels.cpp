// The staged copy and the launch of a closure, in a library of their own, because the backend's build copies with a
// kernel instead and has no kernel that fails on request. Compiled, loaded and used by copies_kernels.py.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "aten/staged/copy.cpp"
#include "kernels/launch.cpp"
#include "kernels/library/library_scope.h"
#include "runtime/error.cpp"

// launch.h needs this function, which the backend does not export. Id 0 is the default stream; every other id is the
// driver's handle.
orStream_t openreg::current_stream_handle(c10::DeviceIndex index) {
  auto handle = reinterpret_cast<orStream_t>(current_stream(index).id());
  if (handle == nullptr) {
    check(orDeviceGetDefaultStream(&handle, index));
  }
  return handle;
}

namespace {

// LITERALINCLUDE START: launch-own-kernel
at::Tensor doubled(const at::Tensor& x) {
  TORCH_CHECK(x.is_privateuseone() && x.is_contiguous() && x.scalar_type() == at::kFloat,
              "doubled takes a contiguous float tensor of the device");
  at::Tensor out = at::empty_like(x);
  if (x.numel() == 0) {
    return out;
  }
  const float* from = openreg::host_alias(x.const_data_ptr<float>(), x.nbytes());
  float* to = openreg::host_alias(out.mutable_data_ptr<float>(), out.nbytes());
  openreg::launch("doubled", x.device().index(), x.nbytes() + out.nbytes(), [from, to, count = x.numel()] {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = 2 * from[i];
    }
  });
  return out;
}
// LITERALINCLUDE END: launch-own-kernel

// LITERALINCLUDE START: launch-watched
std::atomic<int64_t> closures{0};
std::atomic<bool> no_autograd{false};

// Counts the live closures that hold one.
struct Counted {
  Counted() { ++closures; }
  Counted(const Counted&) { ++closures; }
  ~Counted() { --closures; }
};

void watched(c10::Device device, std::string how) {
  openreg::launch("watched", device.index(), 0, [counted = Counted(), how = std::move(how)] {
    const openreg::LibraryScope scope;
    no_autograd = c10::InferenceMode::is_enabled();
    if (how == "exception") {
      throw std::out_of_range("an index is 7, and the sizes are [2]");
    }
    if (how == "number") {
      throw 7;
    }
  });
}

// The closure holds a tensor, which it must not.
void keeps(at::Tensor x) {
  const c10::DeviceIndex device = x.device().index();
  openreg::launch("keeps", device, 0, [x = std::move(x)] {});
}
// LITERALINCLUDE END: launch-watched

TORCH_LIBRARY(copies, m) {
  m.def("strided_copy(Tensor dst, Tensor src) -> ()", openreg::strided_copy);
  m.def("doubled(Tensor x) -> Tensor", doubled);
  m.def("watched(Device device, str how) -> ()", watched);
  m.def("keeps(Tensor x) -> ()", keeps);
  m.def("closures() -> int", [] { return closures.load(); });
  m.def("no_autograd() -> bool", [] { return no_autograd.load(); });
}

}  // namespace
