// The two operators that torch.amp.GradScaler calls: one unscales gradients and checks them for infinities and NaNs,
// the other updates the scale. Both are queued, and the host waits for neither. Called on any thread, with or without
// the GIL; the library runs on the device's stream.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale_cpu_dispatch.h>
#include <ATen/ops/_amp_update_scale_cpu_dispatch.h>
#include <torch/library.h>

#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: grad-scaler-number
void check_device(const char* name, const at::Tensor& tensor, c10::Device device) {
  TORCH_CHECK(tensor.device() == device, name, " must be on ", device, ", not on ", tensor.device());
}

// Checks for a single number on the device.
void check_number(const char* name, const at::Tensor& tensor, c10::Device device, at::ScalarType dtype) {
  check_device(name, tensor, device);
  TORCH_CHECK(tensor.numel() == 1, name, " must be a 1-element tensor, not one of shape ", tensor.sizes());
  TORCH_CHECK(tensor.scalar_type() == dtype, name, " must be of dtype ", dtype, ", not ", tensor.scalar_type());
}
// LITERALINCLUDE END: grad-scaler-number

// LITERALINCLUDE START: grad-scaler-unscale
// schema: aten::_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf,
//         Tensor inv_scale) -> ()
struct Unscale {
  static constexpr auto kName = "_amp_foreach_non_finite_check_and_unscale_";

  static void compute(at::TensorList gradients, at::Tensor& found_inf, const at::Tensor& inv_scale) {
    at::cpu::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inv_scale);
  }
};

void _amp_foreach_non_finite_check_and_unscale_(at::TensorList self, at::Tensor& found_inf,
                                                const at::Tensor& inv_scale) {
  if (self.empty()) {
    return;
  }
  const c10::Device device = first_device({at::ITensorListRef(self), found_inf, inv_scale}).value();
  check_number("found_inf", found_inf, device, at::kFloat);
  check_number("inv_scale", inv_scale, device, at::kFloat);
  for (const at::Tensor& gradient : self) {
    check_device("one of the gradients", gradient, device);
    at::assert_no_internal_overlap(gradient);  // An expanded element would be unscaled more than once.
  }
  launch_in_place<Unscale>(device, at::ITensorListRef(self), found_inf, inv_scale);
}
// LITERALINCLUDE END: grad-scaler-unscale

// LITERALINCLUDE START: grad-scaler-update
// schema: aten::_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf,
//         float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor(a!)
struct UpdateScale {
  static constexpr auto kName = "_amp_update_scale_";

  static void compute(at::Tensor& scale, at::Tensor& growth_tracker, const at::Tensor& found_inf, double growth,
                      double backoff, int64_t interval) {
    at::cpu::_amp_update_scale_(scale, growth_tracker, found_inf, growth, backoff, interval);
  }
};

at::Tensor& _amp_update_scale_(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf, double growth,
                               double backoff, int64_t interval) {
  const c10::Device device = first_device({self, growth_tracker, found_inf}).value();
  check_number("the scale", self, device, at::kFloat);
  check_number("growth_tracker", growth_tracker, device, at::kInt);
  check_number("found_inf", found_inf, device, at::kFloat);
  launch_in_place<UpdateScale>(device, self, growth_tracker, found_inf, growth, backoff, interval);
  return self;
}
// LITERALINCLUDE END: grad-scaler-update

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_amp_foreach_non_finite_check_and_unscale_", _amp_foreach_non_finite_check_and_unscale_);
  m.impl("_amp_update_scale_", _amp_update_scale_);
}

}  // namespace
}  // namespace openreg
