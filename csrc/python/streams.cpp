// Bindings of streams: torch_openreg/openreg/streams.py and busy.py call them.
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings.h"
#include "runtime/sleep.h"
#include "runtime/stream.h"

namespace py = pybind11;

namespace openreg {
namespace {

const Bindings streams_bindings([](py::module_& m) {
  m.def("_current_stream", &current_stream, py::arg("device"));
  m.def("_default_stream", &default_stream, py::arg("device"));
  m.def("_external_stream", &external_stream, py::arg("handle"));
  m.def("_stream_for_capture", &stream_for_capture, py::arg("device"));
  m.def("_stream_priority", &stream_priority, py::arg("stream"));
  m.def("_sleep", &sleep_on_stream, py::arg("nanoseconds"), py::call_guard<py::gil_scoped_release>());
});

}  // namespace
}  // namespace openreg
