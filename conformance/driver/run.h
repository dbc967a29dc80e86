// Runs one check in a process of its own, so that a driver that crashes or hangs is named and the rest goes on.
#pragma once

#include <chrono>
#include <string>

#include "check.h"

namespace conformance {

enum class Outcome { kPassed, kFailed, kCrashed, kHung, kMissing, kNotOffered };

struct Result {
  Outcome outcome = Outcome::kCrashed;
  std::string expected;  // of what failed, crashed or hung
  std::string seen;
  std::string where;   // file and line of the check
  std::string reason;  // of what is not offered; of what is missing, the function
  double seconds = 0;
};

[[nodiscard]] const char* outcome_name(Outcome outcome);

// Requires: this process has never called the driver, which need not survive a fork.
Result run_check(const Check& check, const char* library, std::chrono::milliseconds limit);

}  // namespace conformance
