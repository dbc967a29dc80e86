// Linked into each library of a build with OPENREG_COVERAGE: asks for and clears the counters of that library.

#include <algorithm>
#include <cstdint>

// LLVM's profile runtime; its names are hidden, so that each library has its own.
extern "C" {
char* __llvm_profile_begin_counters();
char* __llvm_profile_end_counters();
// From the counters in the library to those in the mapped file, which are the ones that count.
extern intptr_t __llvm_profile_counter_bias;
}

namespace {

char* counters() { return __llvm_profile_begin_counters() + __llvm_profile_counter_bias; }

intptr_t size() { return __llvm_profile_end_counters() - __llvm_profile_begin_counters(); }

}  // namespace

extern "C" {

/// Says whether any line has run since the counters were cleared.
__attribute__((visibility("default"))) int orCountersAny() {
  return std::any_of(counters(), counters() + size(), [](char byte) { return byte != 0; });
}

/// Clears the counters.
__attribute__((visibility("default"))) void orCountersClear() { std::fill_n(counters(), size(), '\0'); }
}
