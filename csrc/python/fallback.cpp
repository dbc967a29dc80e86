// Bindings of the CPU fallback: torch_openreg/openreg/fallback.py calls them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <string>
#include <vector>

#include "aten/fallback/policy.h"
#include "python/bindings.h"
#include "runtime/tensor_meta.h"

namespace py = pybind11;

namespace openreg {
namespace {

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

const Bindings fallback_bindings([](py::module_& m) {
  m.def("_set_fallback_policy", &set_named_policy, py::arg("policy"), py::arg("operators"));
  m.def("_fallback_stats", &fallback_stats);
  m.def("_reset_fallback_stats", &reset_fallback_stats);
  m.def("_forbids_fallback", &forbids_fallback, py::arg("tensor"));
  m.def("_set_forbids_fallback", &set_forbids_fallback, py::arg("tensor"), py::arg("forbid"));
});

}  // namespace
}  // namespace openreg
