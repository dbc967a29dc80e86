// Compiles the source of a module with the host's C++ compiler.
#pragma once

#include <string>

#include "openreg.h"

namespace openreg::driver {

// Compiles the source to a shared object in memory. $OPENREG_CXX names the compiler; the default is c++.
// Throws: std::bad_alloc.
orError_t compile_module(const std::string& source, const char* options, std::string* shared_object);

}  // namespace openreg::driver
