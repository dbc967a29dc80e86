// The function that calls into Python for a trace. Called on any thread, with or without the GIL.
#include "runtime/trace.h"

#include <atomic>

namespace openreg {

// LITERALINCLUDE START: trace-caller
namespace {

std::atomic<TraceCaller> trace_caller{nullptr};

}  // namespace

void call_trace(c10::function_ref<void()> call) {
  if (const TraceCaller caller = trace_caller.load(); caller != nullptr) caller(call);
}
// LITERALINCLUDE END: trace-caller

void set_trace_caller(TraceCaller caller) { trace_caller.store(caller); }

}  // namespace openreg
