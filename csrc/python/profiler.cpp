// Bindings of named ranges: torch_openreg/openreg/profiler.py calls them.
#include <pybind11/pybind11.h>

#include "profiler/ranges.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace openreg {
namespace {

const Bindings profiler_bindings([](py::module_& m) {
  m.def("_range_push", &push_range, py::arg("name").none(false));
  m.def("_range_pop", &pop_range);
  m.def("_mark", &mark, py::arg("name").none(false));
});

}  // namespace
}  // namespace openreg
