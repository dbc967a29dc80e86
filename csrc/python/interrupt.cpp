// Handles Ctrl-C while the runtime waits for the device.
#include <pybind11/pybind11.h>

#include <optional>

#include "python/bindings.h"
#include "runtime/wait.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-signals
// Runs the handlers of signals that have arrived; that of Ctrl-C raises KeyboardInterrupt. Called by waits, without the
// GIL, even after the interpreter has ended.
void check_signals() {
  if (Py_IsInitialized() == 0) {
    return;  // NOT PROVEN: requires a static object whose destructor waits for the device
  }
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}
// LITERALINCLUDE END: bridge-signals

void run_without_gil(c10::function_ref<void()> wait) {
  std::optional<py::gil_scoped_release> released;
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released.emplace();
  wait();
}

// Adds no function to _C.
const Bindings interrupt_bindings([](py::module_&) {
  set_interrupt_check(&check_signals);
  set_wait_runner(&run_without_gil);
});

}  // namespace
}  // namespace openreg
