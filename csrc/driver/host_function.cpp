// Host functions on streams, for openreg_extended.h.
#include "driver.h"
#include "error.h"
#include "openreg_extended.h"

using namespace openreg::driver;

namespace {

// LITERALINCLUDE START: host-function
struct HostFunctionWork {
  void (*function)(void* user);
  void* user;

  void run(Device&) { function(user); }
  void release() {}
};

}  // namespace

// Always queued, whatever the launch mode: the function may take a lock that its caller holds.
orError_t orLaunchHostFunction(orStream_t stream, void (*function)(void* user), void* user) {
  const Call call("orLaunchHostFunction");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  if (function == nullptr) return fail(orErrorInvalidValue, "function is null");
  if (const orError_t error = ref.stream->device().failure.refuse()) return error;
  uint64_t sequence = 0;
  return ref.stream->submit(ref.generation, Task(HostFunctionWork{function, user}), Placement::kQueue, &sequence);
}
// LITERALINCLUDE END: host-function
