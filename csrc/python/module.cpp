// The bridge to Python: what torch_openreg's Python files call. Nothing here decides anything; each entry is one call
// into the runtime.
//
// An entry that may wait for the device gives up the GIL while it does, so that other Python threads go on.
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/fallback_policy.h"
#include "runtime/device.h"
#include "runtime/tensor_meta.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-default-generator
// The Python object of a device's default generator. PyTorch keeps one object per generator, so two calls return the
// same one. It is asked for by way of at::Context, which makes the device ready first.
py::object get_default_generator(int64_t index) {
  const c10::Device device(c10::kPrivateUse1, resolve_device_index(index));
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  return py::reinterpret_steal<py::object>(THPGenerator_Wrap(generator));
}
// LITERALINCLUDE END: bridge-default-generator

FallbackPolicy policy_from_name(const std::string& name) {
  if (name == "all") {
    return FallbackPolicy::kAll;
  }
  if (name == "listed") {
    return FallbackPolicy::kListed;
  }
  if (name == "error") {
    return FallbackPolicy::kError;
  }
  throw py::value_error("openreg: a fallback policy is 'all', 'listed' or 'error', got '" + name + "'");
}

void set_named_policy(const std::string& policy, const std::vector<std::string>& operators) {
  set_fallback_policy(policy_from_name(policy), operators);
}

}  // namespace

// LITERALINCLUDE START: bridge-method-table
PYBIND11_MODULE(_C, m) {
  m.def("_init", [] { at::globalContext().lazyInitDevice(c10::kPrivateUse1); });
  m.def("_is_in_bad_fork", &is_in_bad_fork);

  m.def("_device_count", &device_count_or_zero);
  m.def("_current_device", &current_device);
  m.def("_set_device", &set_device, py::arg("device"));
  m.def("_exchange_device", &exchange_device, py::arg("device"));
  m.def("_synchronize", &synchronize_device, py::arg("device"), py::call_guard<py::gil_scoped_release>());

  m.def("_get_default_generator", &get_default_generator, py::arg("device"));

  m.def("_set_fallback_policy", &set_named_policy, py::arg("policy"), py::arg("operators"));
  m.def("_fallback_stats", &fallback_stats);
  m.def("_reset_fallback_stats", &reset_fallback_stats);
  m.def("_forbids_fallback", &forbids_fallback, py::arg("tensor"));
  m.def("_set_forbids_fallback", &set_forbids_fallback, py::arg("tensor"), py::arg("forbid"));
}
// LITERALINCLUDE END: bridge-method-table

}  // namespace openreg
