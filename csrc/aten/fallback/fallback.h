// The CPU fallback, for registrations that name it for one operator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace openreg {

// Runs an operator on the CPU: copies its device arguments to the host, calls the CPU kernel, writes mutated
// arguments back and copies new results to the device. Works for every schema.
// Throws: NotImplementedError where a round trip cannot give the right answer: no CPU kernel, a result that must be a
// view, a storage argument, a random operator without a generator; RuntimeError for arguments on several devices.
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace openreg
