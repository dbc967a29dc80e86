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

// Called by the profiler where an operator or a range begins and ends, on its thread. Work that the thread queues until
// then belongs to it: the driver notes the number in its records.
void enter_operator(uint64_t number);
void leave_operator();
void enter_range(uint64_t number);
void leave_range();

[[nodiscard]] Operations current_operations() noexcept;

// Forgets, for all threads, what was entered before: a profile may end inside a range, which is never left then.
void forget_operations() noexcept;
// LITERALINCLUDE END: profiler-operations

// LITERALINCLUDE START: profiler-correlation
// What the driver notes with each piece of work: who queued it, and by which call. A call that the backend does not
// record, such as one of another library, has no number, but its operator is known all the same.
[[nodiscard]] constexpr uint64_t correlation_of(uint32_t operation, uint32_t call) noexcept {
  return uint64_t{operation} << 32 | call;
}
// LITERALINCLUDE END: profiler-correlation

}  // namespace openreg
