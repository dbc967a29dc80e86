// Bindings of memory and events that processes share: torch_openreg/_sharing.py and openreg/interprocess.py call them.
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include <string>

#include "python/bindings.h"
#include "runtime/interprocess_event.h"
#include "runtime/shared_memory.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-sharing
// Each may wait for the device, and a handle is bytes, not text.
py::bytes storage_handle(const c10::Storage& storage) {
  std::string handle;
  {
    const py::gil_scoped_release no_gil;
    share_storage(storage);
    handle = export_storage(storage);
  }
  return py::bytes(handle);
}

const Bindings sharing_bindings([](py::module_& m) {
  const py::call_guard<py::gil_scoped_release> no_gil;
  m.def("_can_share", &can_share);
  m.def("_is_shared", &is_shared, py::arg("storage"));
  m.def("_share_storage", &share_storage, py::arg("storage"), no_gil);
  m.def("_storage_handle", &storage_handle, py::arg("storage"));
  m.def("_open_storage", &open_storage, py::arg("handle"), py::arg("size"), py::arg("device"), no_gil);

  py::class_<InterprocessEvent>(m, "_InterprocessEvent")
      .def(py::init<int64_t>(), py::arg("device"))
      .def(py::init<int64_t, const std::string&>(), py::arg("device"), py::arg("handle"))
      .def_property_readonly("device", &InterprocessEvent::device)
      .def("ipc_handle", [](const InterprocessEvent& event) { return py::bytes(event.handle()); })
      .def("_record", &InterprocessEvent::record, py::arg("stream"), no_gil)
      .def("_record_behind_all_streams", &InterprocessEvent::record_behind_all_streams, no_gil)
      .def("_block", &InterprocessEvent::block, py::arg("stream"), no_gil)
      .def("query", &InterprocessEvent::query)
      .def("synchronize", &InterprocessEvent::synchronize, no_gil);
});
// LITERALINCLUDE END: bridge-sharing

}  // namespace
}  // namespace openreg
