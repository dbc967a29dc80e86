// The one place where driver errors become C++ exceptions. Called on any thread, with or without the GIL.
#include "runtime/error.h"

#include <c10/util/Exception.h>

#include <string>

namespace openreg {
namespace {

// LITERALINCLUDE START: errors-describe
c10::SourceLocation location_of(const std::source_location& where) {
  return {where.function_name(), where.file_name(), where.line()};
}

std::string describe(orError_t error) {
  std::string text = std::string(orGetErrorName(error)) + ": " + orGetErrorString(error);
  if (const std::string detail = orGetErrorDetail(); !detail.empty()) {
    text += " (" + detail + ")";
  }
  // Clears the error, so that it is not mistaken for that of a later call. Sticky errors persist in the driver.
  static_cast<void>(orGetLastError());
  if (error == orErrorLaunchFailure || error == orErrorDeviceLost) {
    text += ". PyTorch cannot reset a device: restart the process";
  }
  return text;
}
// LITERALINCLUDE END: errors-describe

}  // namespace

// LITERALINCLUDE START: driver-error-check
void check(orError_t error, std::source_location where) {
  if (C10_LIKELY(error == orSuccess)) {
    return;
  }
  const c10::SourceLocation location = location_of(where);
  const std::string text = describe(error);
  switch (error) {
    case orErrorMemoryAllocation:
      throw c10::OutOfMemoryError(location, text);
    case orErrorLaunchFailure:
    case orErrorDeviceLost:
      throw c10::AcceleratorError(location, error, text);
    case orErrorNotSupported:
      throw c10::NotImplementedError(location, text);
    default:
      throw c10::Error(location, text);
  }
}
// LITERALINCLUDE END: driver-error-check

// LITERALINCLUDE START: errors-query-and-warn
bool is_finished(orError_t query, std::source_location where) {
  if (query == orErrorNotReady) {
    return false;
  }
  check(query, where);
  return true;
}

void warn(orError_t error, std::source_location where) noexcept {
  if (error != orSuccess) {
    try {
      c10::warn({c10::UserWarning(), location_of(where), describe(error), false});
    } catch (...) {
      // PyTorch's own handlers store or print the text and return. Another one may throw, but not out of here.
    }
  }
}
// LITERALINCLUDE END: errors-query-and-warn

void warn(const std::exception& error, std::source_location where) noexcept {
  try {
    const auto* const raised = dynamic_cast<const c10::Error*>(&error);
    const char* const text = raised != nullptr ? raised->what_without_backtrace() : error.what();
    c10::warn({c10::UserWarning(), location_of(where), text, false});
  } catch (...) {
    // As above.
  }
}

}  // namespace openreg
