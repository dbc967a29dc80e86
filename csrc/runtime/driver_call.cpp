// Who is told of calls of the driver: one for the process.
#include "runtime/driver_call.h"

namespace openreg {

std::atomic<CallObserver*> call_observer{nullptr};

}  // namespace openreg
