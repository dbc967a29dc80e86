// Bindings of the memory history: torch_openreg/openreg/memory.py calls them.
#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

void bind_memory_history(pybind11::module_& m);

}  // namespace openreg
