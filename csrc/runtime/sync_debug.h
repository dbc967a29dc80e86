// Finds calls that synchronize the host with the device, for torch.openreg.set_sync_debug_mode.
#pragma once

#include "driver/openreg.h"
#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: sync-debug-contract
enum class SyncDebugMode { kDefault, kWarn, kError };

// For the whole process.
OPENREG_EXPORT void set_sync_debug_mode(SyncDebugMode mode) noexcept;
OPENREG_EXPORT SyncDebugMode sync_debug_mode() noexcept;

// To be called before an implicit wait, one that the program did not request as it does with synchronize(). `what`
// completes the sentence "the host waits for the device: ...".
// Throws: in the mode kError, and while the stream is being captured. A warning that a program turns into an exception
// is raised after the call has ended.
void before_implicit_wait(const char* what, orStream_t stream);
// LITERALINCLUDE END: sync-debug-contract

}  // namespace openreg
