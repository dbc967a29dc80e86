// Bindings of graphs: torch_openreg/openreg/graphs.py calls them. torch.accelerator.Graph itself needs none.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "python/bindings.h"
#include "runtime/allocator.h"
#include "runtime/capture.h"
#include "runtime/stream.h"

namespace py = pybind11;

namespace openreg {
namespace {

const Bindings graph_bindings([](py::module_& m) {
  m.def("_is_current_stream_capturing", [] { return is_capturing(current_stream_handle(-1)); });
  m.def("_new_pool_id", &new_pool_id);
});

}  // namespace
}  // namespace openreg
