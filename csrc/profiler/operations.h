// Which operator the calling thread is in, by the numbers that PyTorch's profiler gives to operators.
#pragma once

#include <cstdint>

namespace openreg {

// LITERALINCLUDE START: profiler-operations
// Numbers from one sequence for operators and for the user's ranges (record_function); 0 is none.
struct Operations {
  uint32_t operation = 0;  // the innermost operator; outside of all operators, the innermost range
  uint32_t range = 0;      // the innermost range
};

// Called by the profiler at the start and end of an operator or a range, on its thread. Work that the thread queues in
// between belongs to it: the driver stores the number in its records.
void enter_operator(uint64_t number);
void leave_operator();
void enter_range(uint64_t number);
void leave_range();

[[nodiscard]] Operations current_operations() noexcept;

// Discards, for all threads, what was entered before: a profile may end inside a range, which is then never left.
void forget_operations() noexcept;
// LITERALINCLUDE END: profiler-operations

// LITERALINCLUDE START: profiler-correlation
// The value that the driver stores with each piece of work: the operation that queued it, and the call. A call that the
// backend does not record, such as one of another library, has no number, but its operator is known nevertheless.
[[nodiscard]] constexpr uint64_t correlation_of(uint32_t operation, uint32_t call) noexcept {
  return uint64_t{operation} << 32 | call;
}
// LITERALINCLUDE END: profiler-correlation

}  // namespace openreg
