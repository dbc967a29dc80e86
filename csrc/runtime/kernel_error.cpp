// Carries exceptions from kernels to the host. Kept on the thread that runs kernels, raised on any thread, with or
// without the GIL.
#include "runtime/kernel_error.h"

#include <c10/macros/Macros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/capture.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/trace.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: kernel-error-kept
struct Kept {
  std::mutex mutex;
  std::vector<std::pair<c10::DeviceIndex, std::exception_ptr>> errors;
  std::atomic<size_t> count{0};  // while it is 0, no lock is taken
};

// Never destroyed: kernels may run until the process ends.
Kept& kept() {
  static Kept& errors = *new Kept;
  return errors;
}

// Explains why an unrelated call raises the exception, which keeps its type.
void explain(const std::exception_ptr& error, const char* kernel, c10::DeviceIndex device) {
  try {
    std::rethrow_exception(error);
  } catch (c10::Error& raised) {
    raised.add_context("raised by the kernel " + std::string(kernel) + " of openreg:" + std::to_string(device) +
                       " after the call that queued it had returned; with OPENREG_LAUNCH=inline that call raises it");
  } catch (...) {
    // Other exceptions cannot carry the context.
  }
}
// LITERALINCLUDE END: kernel-error-kept

}  // namespace

// LITERALINCLUDE START: kernel-error-functions
void keep_kernel_error(c10::DeviceIndex device, const char* kernel, std::exception_ptr error) noexcept {
  try {
    Kept& all = kept();
    const std::lock_guard lock(all.mutex);
    if (std::ranges::none_of(all.errors, [device](const auto& one) { return one.first == device; })) {
      explain(error, kernel, device);
      all.errors.emplace_back(device, std::move(error));
      all.count.store(all.errors.size());
    }
  } catch (...) {
    // There is no memory to keep it, and the thread that runs kernels has no caller to report to.
  }
}

void raise_kernel_error(c10::DeviceIndex device) {
  Kept& all = kept();
  if (C10_LIKELY(all.count.load() == 0)) {
    return;
  }
  std::exception_ptr error;
  {
    const std::lock_guard lock(all.mutex);
    const auto found =
        std::ranges::find_if(all.errors, [device](const auto& one) { return device == -1 || one.first == device; });
    if (found == all.errors.end()) {
      return;
    }
    error = std::move(found->second);
    all.errors.erase(found);
    all.count.store(all.errors.size());
  }
  std::rethrow_exception(error);  // NOT PROVEN: it runs, but clang counts nothing after a block that may return
}

void synchronize_stream(orStream_t stream, c10::DeviceIndex device) {
  refuse_in_capture(stream, "the host waits for the stream");
  const DriverCall call("orStreamSynchronize");
  wait_for_stream(stream, device);
  check(orStreamSynchronize(stream));
  trace(&Tracer::trace_gpu_stream_synchronization, traced(stream));
  raise_kernel_error(device);
}
// LITERALINCLUDE END: kernel-error-functions

}  // namespace openreg
