// Bindings of the process group backend: torch_openreg/_distributed.py calls them.
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include "distributed/staged_backend.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: distributed-bindings
// PyTorch has registered c10d::Backend with pybind11, which converts the arguments and results of this function. The
// exchanges that end here may have callbacks in Python.
const Bindings distributed_bindings([](py::module_& m) {
  m.def("_staged_backend", [](c10::intrusive_ptr<c10d::Backend> host) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<StagedBackend>(std::move(host));
  });
  m.def("_end_staged_backends", &end_staged_backends, py::call_guard<py::gil_scoped_release>());
});
// LITERALINCLUDE END: distributed-bindings

}  // namespace
}  // namespace openreg
