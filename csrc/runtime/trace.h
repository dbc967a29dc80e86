// Reports runtime events to PyTorch's device trace, which Python tools observe: torch.openreg._gpu_trace.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/macros/Macros.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <type_traits>

#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: trace-function
using Tracer = c10::impl::PyInterpreterVTable;

inline bool is_traced() { return C10_UNLIKELY(c10::impl::GPUTrace::get_trace() != nullptr); }

// Reports an event through the function of PyTorch's interpreter that is named after it: trace(&Tracer::trace_gpu_...,
// ...). Until a program calls torch._C._activate_gpu_trace(), it costs the load of a flag; then it takes the GIL.
// Requires: no lock is held.
template <class... Arguments>
void trace(void (Tracer::*event)(c10::DeviceType, Arguments...) const, std::type_identity_t<Arguments>... arguments);

// The identifier of a stream, an event or memory in a trace.
inline uintptr_t traced(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

// Calls into Python with Python's pending exception, if any, set aside: destructors may run while one is pending, and
// PyTorch's trace would lose it. The runtime does not depend on Python, so the bindings set it, once.
using TraceCaller = void (*)(c10::function_ref<void()> call);
OPENREG_EXPORT void set_trace_caller(TraceCaller caller);
// LITERALINCLUDE END: trace-function

void call_trace(c10::function_ref<void()> call);

template <class... Arguments>
void trace(void (Tracer::*event)(c10::DeviceType, Arguments...) const, std::type_identity_t<Arguments>... arguments) {
  if (is_traced()) {
    call_trace([&] { ((**c10::impl::GPUTrace::get_trace()).*event)(c10::kPrivateUse1, arguments...); });
  }
}

}  // namespace openreg
