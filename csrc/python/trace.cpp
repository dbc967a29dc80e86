// Lets Python tools observe streams, events and memory, as the race detector does.
#include <c10/util/FunctionRef.h>
#include <pybind11/pybind11.h>

#include "python/bindings.h"
#include "runtime/trace.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-trace
// A tensor or an event may be destroyed while a Python exception propagates.
void call_with_error_kept(c10::function_ref<void()> call) {
  if (Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire gil;
  const py::error_scope pending;
  call();
}
// LITERALINCLUDE END: bridge-trace

// Adds no function to _C.
const Bindings trace_bindings([](py::module_&) { set_trace_caller(&call_with_error_kept); });

}  // namespace
}  // namespace openreg
