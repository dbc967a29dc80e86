// Stores, reports and clears the failure of a device.
#include "failure.h"

#include <cstdio>

#include "error.h"

namespace openreg::driver {

// LITERALINCLUDE START: memory-failure-states
void Failure::store(const char* text) {
  const std::lock_guard lock(mutex_);
  if (present()) return;
  std::snprintf(text_, sizeof(text_), "%s", text);
  state_.store(State::kStored);
}

void Failure::lose(const char* text) {
  const std::lock_guard lock(mutex_);
  std::snprintf(text_, sizeof(text_), "%s", text);
  lost_.store(true);
  state_.store(State::kReported);
}

void Failure::clear() {
  const std::lock_guard lock(mutex_);
  resets_.fetch_add(1);
  lost_.store(false);
  state_.store(State::kNone);
}
// LITERALINCLUDE END: memory-failure-states

// LITERALINCLUDE START: memory-failure-report
orError_t Failure::report() {
  if (!present()) return orSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (present()) state_.store(State::kReported);
  }
  return raise();
}

orError_t Failure::raise() const {
  const std::lock_guard lock(mutex_);
  if (!present()) return orSuccess;  // another thread has reset the device meanwhile
  return fail_until_reset(lost() ? orErrorDeviceLost : orErrorLaunchFailure, text_, resets_, resets());
}
// LITERALINCLUDE END: memory-failure-report

}  // namespace openreg::driver
