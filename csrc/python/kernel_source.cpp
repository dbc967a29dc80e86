// Bindings of kernels in the device's language: torch_openreg/_native.py and openreg/kernel_source.py call them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <string>
#include <vector>

#include "aten/kernel_source.h"
#include "driver/openreg_modules.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-native
// Whether the driver accepts kernels in the device's language. A function that it lacks has a null address.
bool has_modules() { return &orModuleLoad != nullptr; }

std::vector<at::ScalarType> native_dtypes(const std::string& name) {
  const auto found = native_kernels().find(name);
  return found == native_kernels().end() ? std::vector<at::ScalarType>() : found->second;
}
// LITERALINCLUDE END: bridge-native

const Bindings kernel_source_bindings([](py::module_& m) {
  m.def("_has_modules", &has_modules);
  m.def("_native_dtypes", &native_dtypes, py::arg("name"));
});

}  // namespace
}  // namespace openreg
