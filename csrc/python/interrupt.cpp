// Handles Ctrl-C while the runtime waits for the device.
#include <c10/core/AutogradState.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>

#include <optional>

#include "python/bindings.h"
#include "runtime/wait.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-signals
// While it lives, PyTorch's operators record gradients as they did in the program. The operator that waits has switched
// that off for the operators that it calls itself.
class ProgramModes {
 private:
  const c10::AutogradState state_ = c10::AutogradState::get_tls_state();
  const c10::InferenceMode keys_{state_.get_inference_mode()};  // restores dispatch keys, and changes the state

 public:
  ProgramModes() {
    c10::AutogradState::set_tls_state(state_);
    // InferenceMode leaves this one as it is: without it no version would be counted, and no view recorded.
    c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView, false);
  }
};

// Runs the handlers of signals that have arrived; that of Ctrl-C raises KeyboardInterrupt. Called by waits, without the
// GIL, even after the interpreter has ended.
void check_signals() {
  if (Py_IsInitialized() == 0) {
    return;  // NOT PROVEN: requires a static object whose destructor waits for the device
  }
  const py::gil_scoped_acquire gil;
  const ProgramModes modes;
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
