// Device times for PyTorch's event-based profiler, torch.autograd.profiler.profile(use_device="openreg"): it records an
// event before and after each operator, and measures the time between them. Called on any thread, without the GIL.
#include <c10/core/DeviceGuard.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "profiler/ranges.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: profiler-stubs
using torch::profiler::impl::ProfilerVoidEventStub;

class EventTimes final : public torch::profiler::impl::ProfilerStubs {
 public:
  // PyTorch 2.13 does not ask the object of a backend.
  bool enabled() const override { return true; }

  // On the current stream, which is where the kernels of an operator go.
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const c10::DeviceIndex index = current_device();
    if (device != nullptr) *device = index;
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
    void* made = nullptr;
    try {
      record_event(&made, current_stream(index), index, c10::EventFlag::BACKEND_DEFAULT);
    } catch (const c10::NotImplementedError&) {  // NOT PROVEN: a driver whose events have no times
      // An exception would leave PyTorch's record of the operator half made.
      TORCH_WARN_ONCE("openreg: this driver's events have no times, so the profile has none");  // NOT PROVEN: as above
      return;  // NOT PROVEN: as above
    }
    event->reset(made, destroy_event);
  }

  // Microseconds. Waits for both events.
  // Throws: for events of different devices, as for an operator that was given tensors of both.
  float elapsed(const ProfilerVoidEventStub* start, const ProfilerVoidEventStub* end) const override {
    synchronize_event(start->get());
    synchronize_event(end->get());
    return static_cast<float>(elapsed_time(start->get(), end->get()) * 1000);
  }

  void onEachDevice(std::function<void(int)> function) const override {
    for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
      const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, index));
      function(index);
    }
  }

  void synchronize() const override { synchronize_device(current_device()); }

  void mark(const char* name) const override { openreg::mark(name); }
  void rangePush(const char* name) const override { push_range(name); }
  void rangePop() const override { pop_range(); }
};

// For the life of the process.
[[maybe_unused]] const bool stubs_registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new EventTimes());
  return true;
}();
// LITERALINCLUDE END: profiler-stubs

}  // namespace
}  // namespace openreg
