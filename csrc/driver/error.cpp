// The last error of each thread, and the names, sentences and texts of errors.
#include "error.h"

#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <new>
#include <string>

namespace openreg::driver {
namespace {

struct ErrorText {
  const char* name;
  const char* sentence;
};

// LITERALINCLUDE START: memory-error-texts
constexpr std::array<ErrorText, 23> kErrorTexts = {{
    {"orSuccess", "no error"},
    {"orErrorInvalidValue", "an argument is null or outside its range"},
    {"orErrorInvalidDevice", "no device has this index"},
    {"orErrorMemoryAllocation", "there is too little free memory"},
    {"orErrorInvalidPointer", "the pointer was never handed out by the driver"},
    {"orErrorFreedPointer", "the pointer lies in device memory that is not allocated, or no longer"},
    {"orErrorMisalignedPointer", "the pointer lies inside an allocation where its start is required"},
    {"orErrorOutOfRange", "the bytes named run past the end of the allocation"},
    {"orErrorInvalidHandle", "the stream, event or kernel does not exist, or no longer"},
    {"orErrorInvalidMemcpyKind", "the kind of the copy contradicts where the two pointers lie"},
    {"orErrorNotReady", "the work asked about has not finished"},
    {"orErrorLaunchFailure", "a kernel failed; the device runs nothing more until orDeviceReset"},
    {"orErrorDeviceLost", "the device is lost until orDeviceReset"},
    {"orErrorForked", "the driver was initialized before this process was forked"},
    {"orErrorInitialization", "the driver could not start"},
    {"orErrorNotSupported", "the driver does not support what was asked for"},
    {"orErrorDeinitialized", "the process is ending, and the device runs nothing more"},
    {"orErrorCompilation", "the source of a module does not compile, or the binary is not for this device"},
    {"orErrorStreamCaptureUnsupported", "the call is not allowed while a stream is being captured"},
    {"orErrorStreamCaptureInvalidated", "an earlier error made the capture invalid"},
    {"orErrorStreamCaptureUnjoined", "the capture ended while a stream that joined it had work of its own"},
    {"orErrorStreamCaptureIsolation", "captured work would depend on work that is not captured"},
    {"orErrorCapturedEvent", "the event was recorded in a capture, and stands for no work that runs"},
}};

constexpr ErrorText kUnknownError = {"orErrorUnknown", "the driver has no error of this number"};

const ErrorText& error_text(orError_t error) {
  const auto index = static_cast<size_t>(error);
  return index < kErrorTexts.size() ? kErrorTexts[index] : kUnknownError;
}
// LITERALINCLUDE END: memory-error-texts

// LITERALINCLUDE START: memory-error-thread
struct ThreadErrors {
  const char* function = "";
  orError_t last = orSuccess;  // cleared by orGetLastError
  orError_t staying = orSuccess;
  const std::atomic<uint64_t>* resets = nullptr;  // of the device that `staying` belongs to
  uint64_t resets_seen = 0;
  char detail[1024] = "";
  const char* log = nullptr;  // the whole text of an error from fail_with_log; `detail` has its beginning
  bool keeps_logs = true;     // false when the thread ends

  [[nodiscard]] orError_t current() const {
    if (last != orSuccess) return last;
    return staying != orSuccess && resets->load() == resets_seen ? staying : orSuccess;
  }
};

thread_local ThreadErrors t_errors;
// LITERALINCLUDE END: memory-error-thread

// LITERALINCLUDE START: memory-error-log
// Owns the text of `log`. Separate from t_errors, which must have no destructor: the driver may be called after this
// destructor has run.
struct Log {
  std::string text;

  ~Log() {
    t_errors.log = nullptr;
    t_errors.keeps_logs = false;
  }
};

thread_local Log t_log;
// LITERALINCLUDE END: memory-error-log

}  // namespace

// LITERALINCLUDE START: memory-error-fail
const char*& current_function() noexcept { return t_errors.function; }

orError_t fail(orError_t error, const char* format, ...) noexcept {
  ThreadErrors& errors = t_errors;
  const int used = std::snprintf(errors.detail, sizeof(errors.detail), "%s: ", errors.function);
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(errors.detail + used, sizeof(errors.detail) - static_cast<size_t>(used), format, arguments);
  va_end(arguments);
  errors.log = nullptr;
  errors.last = error;
  return error;
}
// LITERALINCLUDE END: memory-error-fail

// LITERALINCLUDE START: memory-error-whole-log
orError_t fail_with_log(orError_t error, const char* log) noexcept {
  (void)fail(error, "%s", log);
  if (!t_errors.keeps_logs) return error;  // in a handler at exit: the beginning is kept
  try {
    t_log.text = std::string(t_errors.function) + ": " + log;
    t_errors.log = t_log.text.c_str();
  } catch (const std::bad_alloc&) {  // NOT PROVEN: needs a host that is out of memory; the beginning is kept
  }
  return error;
}
// LITERALINCLUDE END: memory-error-whole-log

// LITERALINCLUDE START: memory-error-staying
orError_t fail_until_reset(orError_t error, const char* text, const std::atomic<uint64_t>& resets,
                           uint64_t seen) noexcept {
  (void)fail(error, "%s", text);
  ThreadErrors& errors = t_errors;
  errors.last = orSuccess;
  errors.staying = error;
  errors.resets = &resets;
  errors.resets_seen = seen;
  return error;
}
// LITERALINCLUDE END: memory-error-staying

}  // namespace openreg::driver

using openreg::driver::error_text;
using openreg::driver::t_errors;

// LITERALINCLUDE START: memory-error-last
const char* orGetErrorName(orError_t error) { return error_text(error).name; }

const char* orGetErrorString(orError_t error) { return error_text(error).sentence; }

orError_t orPeekLastError() { return t_errors.current(); }

orError_t orGetLastError() {
  const orError_t error = t_errors.current();
  t_errors.last = orSuccess;
  return error;
}

const char* orGetErrorDetail() { return t_errors.log != nullptr ? t_errors.log : t_errors.detail; }
// LITERALINCLUDE END: memory-error-last
