// Turns the driver's error codes into the exceptions that PyTorch users expect.
//
// The result of a driver call goes to check(), to is_finished() or, where an exception would end the process, to
// warn(); code that does not depend on PyTorch (block_pool.cpp) returns it to its caller. The compiler rejects a call
// whose result is ignored.
#pragma once

#include <exception>
#include <source_location>

#include "driver/openreg.h"
#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: errors-contract
// Throws: torch.OutOfMemoryError for orErrorMemoryAllocation, torch.AcceleratorError (with the driver's code) for a
// failed kernel or a lost device, NotImplementedError for orErrorNotSupported, RuntimeError for the rest. The message
// is the driver's own, which names what was requested, what was given and what is valid. With
// TORCH_SHOW_CPP_STACKTRACES=1 it is followed by the call site.
OPENREG_EXPORT void check(orError_t error, std::source_location where = std::source_location::current());

// For queries: whether the work has finished. Throws: as check, for every result but orSuccess and orErrorNotReady.
bool is_finished(orError_t query, std::source_location where = std::source_location::current());

// For destructors and noexcept functions: issues the same message, with the call site, as a warning.
void warn(orError_t error, std::source_location where = std::source_location::current()) noexcept;
OPENREG_EXPORT void warn(const std::exception& error,
                         std::source_location where = std::source_location::current()) noexcept;
// LITERALINCLUDE END: errors-contract

}  // namespace openreg
