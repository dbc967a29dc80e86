// Suppresses PyTorch's warning about registrations that replace others.
#include "native/registration.h"

namespace openreg::native {

// LITERALINCLUDE START: native-replacing-handler
Replacing::Replacing() {
  handler_.outer = c10::WarningUtils::get_warning_handler();
  guard_.emplace(&handler_);
}

void Replacing::Handler::process(const c10::Warning& warning) {
  if (warning.msg().find("Overriding a previously registered kernel") == std::string::npos) outer->process(warning);
}
// LITERALINCLUDE END: native-replacing-handler

}  // namespace openreg::native
