// Every operator as a range: torch.openreg.profiler.emit_ranges enables this for the calling thread, as
// torch.autograd.profiler.emit_nvtx does for CUDA's tools. Called on the threads for which it is enabled.
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/standalone/privateuse1_observer.h>
#include <torch/csrc/profiler/util.h>

#include <memory>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>

#include "profiler/ranges.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: observer-state
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerStateBase;

// The state that PyTorch keeps on the thread while this is enabled: settings, and the callback that it removes at the
// end.
class EmitState final : public ProfilerStateBase {
 public:
  explicit EmitState(const ProfilerConfig& config) : ProfilerStateBase(config) {}
  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::PRIVATEUSE1;
  }
  // Ranges cannot carry memory usage.
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}  // NOT PROVEN: not called
};
// LITERALINCLUDE END: observer-state

// LITERALINCLUDE START: observer-callbacks
// "aten::mul, seq = 3, sizes = [[2, 2], [2, 2]]": seq relates a range of the backward pass to that of the forward pass.
std::string range_name(const at::RecordFunction& function) {
  std::ostringstream name;
  name << function.name();
  if (function.seqNr() >= 0) name << ", seq = " << function.seqNr();
  if (torch::profiler::impl::getProfilerConfig().report_input_shapes) {
    name << ", sizes = [";
    const char* separator = "";
    for (const auto& sizes : torch::profiler::impl::inputSizes(function)) {
      name << std::exchange(separator, ", ") << c10::IntArrayRef(sizes);
    }
    name << "]";
  }
  return name.str();
}

std::unique_ptr<at::ObserverContext> open_range(const at::RecordFunction& function) {
  push_range(range_name(function).c_str());
  return nullptr;
}

void close_range(const at::RecordFunction&, at::ObserverContext*) { pop_range(); }
// LITERALINCLUDE END: observer-callbacks

// LITERALINCLUDE START: observer-registration
void start_emitting(const ProfilerConfig& config, const std::unordered_set<at::RecordScope>& scopes) {
  const auto state = std::make_shared<EmitState>(config);
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, state);
  state->setCallbackHandle(at::addThreadLocalCallback(
      at::RecordFunctionCallback(open_range, close_range).needsInputs(config.report_input_shapes).scopes(scopes)));
}

// PyTorch's macro for this works in PyTorch's own namespace only.
[[maybe_unused]] const torch::profiler::impl::RegisterPRIVATEUSE1Observer observer_registered(&start_emitting);
// LITERALINCLUDE END: observer-registration

}  // namespace
}  // namespace openreg
