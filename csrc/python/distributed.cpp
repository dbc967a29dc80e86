// Bindings of the process group backend: torch_openreg/_distributed.py calls them.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <utility>

#include "distributed/staged_backend.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace openreg {

// LITERALINCLUDE START: distributed-holder
// How Python holds a process group. The last reference ends the group's threads and waits for them, and they need the
// GIL to let go of tensors that Python has seen. pybind11 also reads and writes it as a pointer to the base class, so
// it has the pointer and nothing else.
template <class T>
class HolderWithoutGil {
 public:
  HolderWithoutGil() = default;
  explicit HolderWithoutGil(T* made)                                     // NOT PROVEN: for constructors in Python
      : pointer_(c10::intrusive_ptr<T>::unsafe_steal_from_new(made)) {}  // NOT PROVEN: as above
  HolderWithoutGil(const HolderWithoutGil&) = default;
  HolderWithoutGil(HolderWithoutGil&&) noexcept = default;
  HolderWithoutGil& operator=(const HolderWithoutGil&) = default;
  HolderWithoutGil& operator=(HolderWithoutGil&&) noexcept = default;
  ~HolderWithoutGil() {
    std::optional<py::gil_scoped_release> no_gil;
    if (pointer_ != nullptr && PyGILState_Check() != 0) no_gil.emplace();
    pointer_.reset();
  }

 private:
  c10::intrusive_ptr<T> pointer_;
};

}  // namespace openreg

PYBIND11_DECLARE_HOLDER_TYPE(T, openreg::HolderWithoutGil<T>, true)
// LITERALINCLUDE END: distributed-holder

namespace openreg {
namespace {

// LITERALINCLUDE START: distributed-bindings
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

BackendPtr create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout) {
  const py::gil_scoped_acquire gil;
  const py::object function = py::module_::import("torch_openreg._distributed").attr("create");
  return function(store, rank, size, timeout).cast<BackendPtr>();
}

// PyTorch has registered c10d::Backend with pybind11, which converts the arguments and results of this function. The
// exchanges that end here may have callbacks in Python. None as a Backend is a null pointer.
const Bindings distributed_bindings([](py::module_& m) {
  // split_group copies the options, which the base class has no property for.
  py::class_<StagedOptions, c10::intrusive_ptr<StagedOptions>, c10d::Backend::Options>(m, "_StagedOptions")
      .def("__deepcopy__",
           [](const StagedOptions& options, const py::dict&) { return c10::make_intrusive<StagedOptions>(options); });
  py::class_<StagedBackend, HolderWithoutGil<StagedBackend>, c10d::Backend>(m, "_StagedBackend")
      .def_property_readonly("options", &StagedBackend::getBackendOptions)
      // PyTorch calls it on the ranks that a new group leaves out. They have no part in splitting a group here.
      .def("perform_nocolor_split", [](StagedBackend&, const c10::Device&) {});
  m.def("_staged_backend", [](BackendPtr host, BackendPtr control, c10::intrusive_ptr<c10d::Store> store) {
    return c10::make_intrusive<StagedBackend>(std::move(host), std::move(control), &create, std::move(store));
  });
  m.def("_end_staged_backends", &end_staged_backends, py::call_guard<py::gil_scoped_release>());
});
// LITERALINCLUDE END: distributed-bindings

}  // namespace
}  // namespace openreg
