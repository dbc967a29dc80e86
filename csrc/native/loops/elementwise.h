// Elementwise kernels over the operands of a TensorIterator.
#pragma once

#include <ATen/TensorIterator.h>

#include <string>

#include "native/dtypes.h"
#include "native/geometry.h"
#include "native/launch_function.h"

namespace openreg::native {

// LITERALINCLUDE START: native-elementwise-plan
// One launch of an elementwise kernel. Each source has two functions: `abs_contiguous`, for contiguous operands, takes
// the number of elements, and `abs_strided` a geometry.
struct ElementwiseLaunch {
  at::ScalarType dtype;
  bool contiguous;
  Geometry geometry;
  std::array<const char*, Geometry::kMostOperands> data{};  // null for a number of the host
  Number number;  // the operand that is a number, if any
};

// Whether all operands have the dtype that the iterator computes in, which must be one of kNumbers.
bool takes(const at::TensorIteratorBase& iter);

// Requires: takes(iter), and the iterator has elements.
ElementwiseLaunch plan_elementwise(const at::TensorIteratorBase& iter);
// LITERALINCLUDE END: native-elementwise-plan

// LITERALINCLUDE START: native-elementwise-launch
// Queues the function of "loops/<name>.cl". `extra` are its arguments before the count or the geometry.
template <class... Extra>
void launch_unary(const std::string& name, const at::TensorIteratorBase& iter, const Extra&... extra) {
  if (iter.numel() == 0) return;
  const ElementwiseLaunch plan = plan_elementwise(iter);
  launch_elementwise(name, iter, plan, plan.data[0], plan.data[1], extra...);
}

template <class... Extra>
void launch_binary(const std::string& name, const at::TensorIteratorBase& iter, const Extra&... extra) {
  if (iter.numel() == 0) return;
  const ElementwiseLaunch plan = plan_elementwise(iter);
  launch_elementwise(name, iter, plan, plan.data[0], plan.data[1], plan.data[2], plan.number, extra...);
}

template <class... Arguments>
void launch_elementwise(const std::string& name, const at::TensorIteratorBase& iter, const ElementwiseLaunch& plan,
                        const Arguments&... arguments) {
  const c10::DeviceIndex device = iter.device(0).index();
  const Function& function =
      find_function(device, "loops/" + name + ".cl", name + (plan.contiguous ? "_contiguous" : "_strided"),
                    options_for(plan.dtype, fits_int(plan.geometry)));
  const orLaunchConfig config = config_for(function, plan.geometry.count);
  if (plan.contiguous) {
    launch_function(device, function, config, arguments..., plan.geometry.count);
  } else {
    launch_function(device, function, config, arguments..., plan.geometry);
  }
}
// LITERALINCLUDE END: native-elementwise-launch

}  // namespace openreg::native
