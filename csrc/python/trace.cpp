// Python tools that listen to streams, events and memory, as the race detector does.
#include <c10/util/FunctionRef.h>
#include <pybind11/pybind11.h>

#include "python/bindings.h"
#include "runtime/trace.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-trace
// A tensor or an event may die while an exception is on its way through Python.
void call_with_error_kept(c10::function_ref<void()> call) {
  if (Py_IsInitialized() == 0) {
    return;  // NOT PROVEN: takes a static object that owns a tensor
  }
  const py::gil_scoped_acquire gil;
  const py::error_scope pending;
  call();
}
// LITERALINCLUDE END: bridge-trace

// No function for Python to call.
const Bindings trace_bindings([](py::module_&) { set_trace_caller(&call_with_error_kept); });

}  // namespace
}  // namespace openreg
