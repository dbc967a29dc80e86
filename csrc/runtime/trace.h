// Events for PyTorch's trace of devices, which tools in Python listen to: torch.openreg._gpu_trace.
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

// Reports an event by the function of PyTorch's interpreter that is named after it: trace(&Tracer::trace_gpu_..., ...).
// Until a program has called torch._C._activate_gpu_trace() it costs the load of a flag; then it takes the GIL. To be
// called without a lock.
template <class... Arguments>
void trace(void (Tracer::*event)(c10::DeviceType, Arguments...) const, std::type_identity_t<Arguments>... arguments);

// What a trace calls a stream, an event or memory.
inline uintptr_t traced(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

// Makes a call into Python while Python's pending exception, if there is one, is put aside: destructors run where one
// is pending, and PyTorch's trace would lose it. The runtime knows no Python, so the bindings set it, once.
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
