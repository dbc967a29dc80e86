// The synchronization debug mode, and its effect on a wait. Called on any thread, with or without the GIL.
#include "runtime/sync_debug.h"

#include <c10/macros/Macros.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <string>

#include "runtime/capture.h"

namespace openreg {

// LITERALINCLUDE START: sync-debug-functions
namespace {

std::atomic<SyncDebugMode> current_sync_debug_mode{SyncDebugMode::kDefault};

}  // namespace

void set_sync_debug_mode(SyncDebugMode mode) noexcept { current_sync_debug_mode.store(mode); }
SyncDebugMode sync_debug_mode() noexcept { return current_sync_debug_mode.load(std::memory_order_relaxed); }

void before_implicit_wait(const char* what, orStream_t stream) {
  if (is_capturing(stream)) refuse_in_capture(stream, std::string("the host waits for the device: ") + what);
  const SyncDebugMode mode = sync_debug_mode();
  if (C10_LIKELY(mode == SyncDebugMode::kDefault)) {
    return;
  }
  TORCH_CHECK(mode != SyncDebugMode::kError, "openreg: the host waits for the device: ", what,
              " (torch.openreg.set_sync_debug_mode(\"error\") forbids it)");
  TORCH_WARN("openreg: the host waits for the device: ", what);
}
// LITERALINCLUDE END: sync-debug-functions

}  // namespace openreg
