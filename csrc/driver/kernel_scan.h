// Finds the kernels in a preprocessed source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace openreg::driver {

// LITERALINCLUDE START: modules-scan-contract
struct ScannedKernel {
  std::string name;
  uint64_t local_parameters = 0;  // bit n: parameter n points to local memory
};

struct ScannedSource {
  std::string text;  // with __LOCAL or __LOC for each variable's __local or local: see device_language.h
  std::vector<ScannedKernel> kernels;
};

// Finds what C++ cannot express: which functions are kernels, and what is in local memory. Everything else, including
// mistakes, is left to the compiler.
ScannedSource scan_kernels(std::string_view source);
// LITERALINCLUDE END: modules-scan-contract

}  // namespace openreg::driver
