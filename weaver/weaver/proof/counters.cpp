// Linked into each library of a build with counters: reads and clears the counters of that library. Its functions are
// <WEAVER_COUNTERS>_any, _mark, _drop, and _restore, because a library may export only names with a certain prefix.
//
// Other threads count all the time. A counter is therefore never just set to 0: what they count between reading and
// clearing would be lost, and a line that is executed once would be reported as not executed.

#include <cstddef>
#include <cstdint>
#include <vector>

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

using Count = uint64_t;

Count* begin() { return reinterpret_cast<Count*>(__llvm_profile_begin_counters() + __llvm_profile_counter_bias); }

size_t size() { return (__llvm_profile_end_counters() - __llvm_profile_begin_counters()) / sizeof(Count); }

std::vector<Count>& marked() {
  static std::vector<Count> counts;
  return counts;
}

std::vector<bool>& own() {
  static std::vector<bool> counted;
  return counted;
}

}  // namespace

extern "C" {

/// Returns whether any line has run since the counters were cleared.
__attribute__((visibility("default"))) int WEAVER_NAME(WEAVER_COUNTERS, any)() {
  for (size_t i = 0; i < size(); ++i) {
    if (begin()[i] != 0) return 1;
  }
  return 0;
}

/// Remembers the present counts.
__attribute__((visibility("default"))) void WEAVER_NAME(WEAVER_COUNTERS, mark)() {
  marked().assign(begin(), begin() + size());
}

/// Takes away what was counted before the mark. A counter that was 0 then is not written.
__attribute__((visibility("default"))) void WEAVER_NAME(WEAVER_COUNTERS, drop)() {
  for (size_t i = 0; i < marked().size(); ++i) {
    if (marked()[i] != 0) __atomic_fetch_sub(&begin()[i], marked()[i], __ATOMIC_RELAXED);
  }
}

/// Takes away what the same call always counts after the mark: what it counted every time so far. Anything else,
/// another thread has counted.
__attribute__((visibility("default"))) void WEAVER_NAME(WEAVER_COUNTERS, restore)() {
  own().resize(marked().size(), true);
  for (size_t i = 0; i < marked().size(); ++i) {
    own()[i] = own()[i] && begin()[i] != marked()[i];
    if (own()[i]) begin()[i] = marked()[i];
  }
}
}
