// The failure of a device: of a kernel that ran there, or of the device as a whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "openreg.h"

namespace openreg::driver {

// A kernel fails long after its launch has returned. Its failure is therefore stored, and reported by the next
// function that synchronises; from then on every function that touches the device refuses, until the reset.
class Failure {
 public:
// LITERALINCLUDE START: memory-failure-contract
  // Whether the device has failed: then it drops its work.
  [[nodiscard]] bool present() const noexcept { return state_.load() != State::kNone; }
  [[nodiscard]] bool lost() const noexcept { return lost_.load(); }
  [[nodiscard]] uint64_t resets() const noexcept { return resets_.load(); }

  // A kernel failed. The first failure is the one that is kept.
  void store(const char* text);
  // The device is lost, whatever was wrong before; it counts as reported.
  void lose(const char* text);
  // The device was reset.
  void clear();

  // For functions that queue: the failure, once it was reported.
  [[nodiscard]] orError_t refuse() const { return state_.load() == State::kReported ? raise() : orSuccess; }
  // For functions that synchronise: the failure, which counts as reported from now on.
  [[nodiscard]] orError_t report();
// LITERALINCLUDE END: memory-failure-contract

 private:
  enum class State { kNone, kStored, kReported };

  [[nodiscard]] orError_t raise() const;

  std::atomic<State> state_{State::kNone};
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> resets_{0};
  mutable std::mutex mutex_;  // guards text_, and every change of the members above
  char text_[1024] = "";  // not a std::string: a failure must be kept when the host has no memory, too
};

}  // namespace openreg::driver
