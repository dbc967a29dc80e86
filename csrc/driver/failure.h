// The failure of a device: of a kernel that ran there, or of the device as a whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "openreg.h"

namespace openreg::driver {

// A kernel may fail long after its launch has returned. Its failure is therefore stored, and reported by the next
// function that synchronizes; from then on every function that touches the device fails, until the reset.
class Failure {
 public:
// LITERALINCLUDE START: memory-failure-contract
  // Whether the device has failed, and therefore drops its work.
  [[nodiscard]] bool present() const noexcept { return state_.load() != State::kNone; }
  [[nodiscard]] bool lost() const noexcept { return lost_.load(); }
  [[nodiscard]] uint64_t resets() const noexcept { return resets_.load(); }

  // Stores the failure of a kernel. Only the first failure is kept.
  void store(const char* text);
  // Marks the device as lost, whatever its failure was before; this counts as reported.
  void lose(const char* text);
  // Clears the failure, when the device is reset.
  void clear();

  // For functions that queue work: returns the failure if it was already reported.
  [[nodiscard]] orError_t refuse() const { return state_.load() == State::kReported ? raise() : orSuccess; }
  // For functions that synchronize: returns the failure, and marks it as reported.
  [[nodiscard]] orError_t report();
// LITERALINCLUDE END: memory-failure-contract

 private:
  enum class State { kNone, kStored, kReported };

  [[nodiscard]] orError_t raise() const;

  std::atomic<State> state_{State::kNone};
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> resets_{0};
  mutable std::mutex mutex_;  // guards text_, and every change of the members above
  char text_[1024] = "";  // not a std::string: storing a failure must not need memory
};

}  // namespace openreg::driver
