// The observer of driver calls: one for the process.
#include "runtime/driver_call.h"

namespace openreg {

std::atomic<CallObserver*> call_observer{nullptr};

}  // namespace openreg
