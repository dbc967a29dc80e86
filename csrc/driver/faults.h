// Faults requested by orInjectFault that have not happened yet.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "openreg_faults.h"

namespace openreg::driver {

// LITERALINCLUDE START: kernel-fault-counters
// Thread: safe and lock-free.
class Faults {
 public:
  // Makes the next `count` occasions fail; replaces the previous count.
  void order(orFault_t fault, unsigned count) noexcept { counter(fault).store(count); }

  // Whether this occasion must fail; consumes one fault if so.
  [[nodiscard]] bool take(orFault_t fault) noexcept {
    std::atomic<unsigned>& left = counter(fault);
    unsigned current = left.load();
    while (current > 0) {
      if (left.compare_exchange_weak(current, current - 1)) return true;
    }
    return false;
  }

  void clear() noexcept {
    for (std::atomic<unsigned>& left : counters_) left.store(0);
  }

 private:
  std::atomic<unsigned>& counter(orFault_t fault) noexcept { return counters_[static_cast<size_t>(fault)]; }

  std::array<std::atomic<unsigned>, 3> counters_{};  // orFaultAllocation, orFaultKernel, orFaultHang
};
// LITERALINCLUDE END: kernel-fault-counters

}  // namespace openreg::driver
