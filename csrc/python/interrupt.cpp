// Ctrl-C, while the runtime waits for the device.
#include <pybind11/pybind11.h>

#include "python/bindings.h"
#include "runtime/wait.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-signals
// Runs the handlers of signals that have arrived; that of Ctrl-C raises KeyboardInterrupt. Called by waits, without the
// GIL, and also after the interpreter has ended.
void check_signals() {
  if (Py_IsInitialized() == 0) {
    return;  // NOT PROVEN: takes a static object that waits for the device in its destructor
  }
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}
// LITERALINCLUDE END: bridge-signals

// No function for Python to call.
const Bindings interrupt_bindings([](py::module_&) { set_interrupt_check(&check_signals); });

}  // namespace
}  // namespace openreg
