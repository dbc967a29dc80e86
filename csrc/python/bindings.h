// The functions of the extension module _C. Each file adds those of its concept, so that a new file needs no line here.
#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

// LITERALINCLUDE START: bridge-bindings
// Adds functions to _C. Requires: static storage duration, in a source of the module's own library.
class Bindings {
 public:
  using Add = void (*)(pybind11::module_&);
  explicit Bindings(Add add);
};
// LITERALINCLUDE END: bridge-bindings

}  // namespace openreg
