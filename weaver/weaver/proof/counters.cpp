// Linked into each library of a build with counters: reads and clears the counters of that library. Its functions are
// <WEAVER_COUNTERS>_any and <WEAVER_COUNTERS>_clear, because a library may export only names with a certain prefix.

#include <algorithm>
#include <cstdint>

#ifndef WEAVER_COUNTERS
#define WEAVER_COUNTERS weaver_counters
#endif
#define WEAVER_JOIN(prefix, name) prefix##_##name
#define WEAVER_NAME(prefix, name) WEAVER_JOIN(prefix, name)

// LLVM's profile runtime; its symbols are hidden, so each library has its own copy.
extern "C" {
char* __llvm_profile_begin_counters();
char* __llvm_profile_end_counters();
// The offset from the counters in the library to those in the mapped file, which are the active ones.
extern intptr_t __llvm_profile_counter_bias;
}

namespace {

char* counters() { return __llvm_profile_begin_counters() + __llvm_profile_counter_bias; }

intptr_t size() { return __llvm_profile_end_counters() - __llvm_profile_begin_counters(); }

}  // namespace

extern "C" {

/// Returns whether any line has run since the counters were cleared.
__attribute__((visibility("default"))) int WEAVER_NAME(WEAVER_COUNTERS, any)() {
  return std::any_of(counters(), counters() + size(), [](char byte) { return byte != 0; });
}

/// Clears the counters.
__attribute__((visibility("default"))) void WEAVER_NAME(WEAVER_COUNTERS, clear)() {
  std::fill_n(counters(), size(), '\0');
}
}
