// The bridge to Python: the extension module torch_openreg._C, which torch_openreg's Python files call. This folder
// only converts arguments and results; each function is one call into the runtime.
//
// A function that may wait for the device releases the GIL meanwhile: see Note [Threads and the GIL].
#include <pybind11/pybind11.h>

#include <vector>

#include "python/bindings.h"

namespace openreg {
namespace {

// A local static: the files of this folder register themselves in no particular order.
std::vector<Bindings::Add>& registered_bindings() {
  static std::vector<Bindings::Add> bindings;
  return bindings;
}

}  // namespace

// LITERALINCLUDE START: bridge-module
Bindings::Bindings(Add add) { registered_bindings().push_back(add); }

// Runs at the first import of _C, when the dynamic linker has constructed all Bindings.
PYBIND11_MODULE(_C, m) {
  for (const Bindings::Add add : registered_bindings()) add(m);
}
// LITERALINCLUDE END: bridge-module

}  // namespace openreg
