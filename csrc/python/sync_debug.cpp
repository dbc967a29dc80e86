// Bindings of the warnings for synchronizing operations: torch_openreg/openreg/sync_debug.py calls them.
#include <pybind11/pybind11.h>

#include "python/bindings.h"
#include "runtime/sync_debug.h"

namespace py = pybind11;

namespace openreg {
namespace {

// As torch.cuda numbers them: 0 is the default, 1 warns, 2 raises.
void set_numbered_sync_mode(int mode) { set_sync_debug_mode(static_cast<SyncDebugMode>(mode)); }
int numbered_sync_mode() { return static_cast<int>(sync_debug_mode()); }

const Bindings sync_debug_bindings([](py::module_& m) {
  m.def("_set_sync_debug_mode", &set_numbered_sync_mode, py::arg("mode"));
  m.def("_get_sync_debug_mode", &numbered_sync_mode);
});

}  // namespace
}  // namespace openreg
