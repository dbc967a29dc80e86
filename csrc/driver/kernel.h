// Launches kernels: built-in ones, host code, functions of modules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver.h"
#include "task.h"

namespace openreg::driver {

// Blocks the calling thread until the device stops it, or its reset count differs from `resets`.
void hang(Device& device, uint64_t resets);
// Stores the failure of a kernel.
void fail_kernel(Device& device, const char* name, const char* message);

// LITERALINCLUDE START: kernel-launch
// Wraps a kernel's work so that it fails instead of running. Requires: work.name is the kernel's name.
template <class Work>
struct Failing {
  Work work;

  void run(Device& device) { fail_kernel(device, work.name, "injected fault"); }
  void release() { work.release(); }
  [[nodiscard]] Activity activity() const { return work.activity(); }  // NOT PROVEN: called only while recording
  bool keep()
    requires requires { work.keep(); }
  {
    return work.keep();
  }
};

// The same for a kernel that hangs: only a reset, the loss of the device or the process's exit ends it.
template <class Work>
struct Hanging {
  Work work;
  uint64_t resets;

  void run(Device& device) { hang(device, resets); }
  void release() { work.release(); }
  [[nodiscard]] Activity activity() const { return work.activity(); }  // NOT PROVEN: as above
  bool keep()
    requires requires { work.keep(); }
  {
    return work.keep();
  }
};

// Launches the kernel on the stream. Always takes ownership of the work, and releases it on failure.
template <class Work>
orError_t submit_kernel(const StreamRef& ref, Work work, Placement placement, const char* not_captured = nullptr) {
  Device& device = ref.stream->device();
  if (const orError_t error = device.failure.refuse()) {
    work.release();
    return error;
  }
  const uint64_t resets = device.failure.resets();  // read before the faults: a reset clears them
  uint64_t sequence = 0;
  orError_t error = orSuccess;
  const bool runs = ref.stream->capture() == nullptr;  // a captured one does not, and leaves injected faults to others
  if (runs && device.faults.take(orFaultHang)) {
    const Placement hanging = placement == Placement::kCallerIfIdle ? Placement::kQueue : placement;
    error = ref.stream->submit(ref.generation, Task(Hanging<Work>{work, resets}), hanging, &sequence, not_captured);
  } else if (runs && device.faults.take(orFaultKernel)) {
    error = ref.stream->submit(ref.generation, Task(Failing<Work>{work}), placement, &sequence, not_captured);
  } else {
    error = ref.stream->submit(ref.generation, Task(work), placement, &sequence, not_captured);
  }
  if (error != orSuccess || device.launch != LaunchMode::kInline) return error;
  return device.failure.report();
}
// LITERALINCLUDE END: kernel-launch

}  // namespace openreg::driver
