// Notes each operator that runs and each read of a stub: which stub, for which device, and by which operator.
// Preloaded by sweep.py.
//
// Whoever calls a stub asks DispatchStubImpl::get_call_ptr for the function to call. PyTorch's libraries look that name
// up when they are loaded, and a library that is preloaded comes first: here the question is noted, and then asked of
// PyTorch. The operator is what PyTorch tells its observers that it runs.
//
// Only what the thread that starts the probe runs is noted: a device's kernels may run on a thread of their own, and
// what they call there is not what the operator reads.
#include <ATen/native/DispatchStub.h>
#include <ATen/record_function.h>
#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

// Never destroyed: operators run while the process ends, too.
std::vector<std::string>& running() {
  thread_local auto& operators = *new std::vector<std::string>;  // the innermost last; only the observed thread has any
  return operators;
}

std::set<std::string>& notes() {
  static auto& lines = *new std::set<std::string>;  // operator; or operator, device type and address of the stub
  return lines;
}

std::unique_ptr<at::ObserverContext> push_operator(const at::RecordFunction& call) {
  const auto name = call.operator_name();
  running().push_back(name ? c10::toString(*name) : running().empty() ? "" : running().back());
  notes().insert(running().back());
  return nullptr;
}

void pop_operator(const at::RecordFunction& /*call*/, at::ObserverContext* /*context*/) { running().pop_back(); }

}  // namespace

// A member of the class of each stub, which has no other member: its address is the address of the stub.
void* at::native::DispatchStubImpl::get_call_ptr(c10::DeviceType device, void* first, void* second, void* third) {
  using Original = void* (*)(DispatchStubImpl*, c10::DeviceType, void*, void*, void*);
  static const auto original = reinterpret_cast<Original>(
      dlsym(RTLD_NEXT, "_ZN2at6native16DispatchStubImpl12get_call_ptrEN3c1010DeviceTypeEPvS4_S4_"));
  if (!running().empty()) {
    notes().insert(running().back() + ' ' + c10::DeviceTypeName(device, true) + ' ' +
                   std::to_string(reinterpret_cast<uintptr_t>(this)));
  }
  return original(this, device, first, second, third);
}

extern "C" {

// Begins to observe which operators this thread runs.
__attribute__((visibility("default"))) void stub_probe_start() {
  at::addThreadLocalCallback(
      at::RecordFunctionCallback(push_operator, pop_operator).scopes({at::RecordScope::FUNCTION}));
}

// What ran and what was read since the last call, a line for each. Valid until the next call.
__attribute__((visibility("default"))) const char* stub_probe_take() {
  static std::string taken;
  taken.clear();
  for (const std::string& line : std::exchange(notes(), {})) {
    taken += line + '\n';
  }
  return taken.c_str();
}
}
