// Records each operator that runs and each read of a stub: which stub, for which device, and by which operator. The
// command (__init__.py) preloads it into sweep.py.
//
// A call of a stub gets its function from DispatchStubImpl::get_call_ptr. PyTorch's libraries resolve that symbol when
// they are loaded, and a preloaded library comes first: the definition here records the call and forwards it to
// PyTorch's. The operator is the one that PyTorch reports to its observers (RecordFunction).
//
// Only the thread that starts the probe is observed: a device's kernels may run on other threads, and the stubs that
// they call there are not what the operator reads.
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

// Never destroyed: operators also run while the process exits.
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

// DispatchStubImpl is the only member of a stub's class, so its address is the address of the stub.
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

// Starts to observe the operators that this thread runs.
__attribute__((visibility("default"))) void stub_probe_start() {
  at::addThreadLocalCallback(
      at::RecordFunctionCallback(push_operator, pop_operator).scopes({at::RecordScope::FUNCTION}));
}

// Returns the operators and reads since the last call, one per line. Valid until the next call.
__attribute__((visibility("default"))) const char* stub_probe_take() {
  static std::string taken;
  taken.clear();
  for (const std::string& line : std::exchange(notes(), {})) {
    taken += line + '\n';
  }
  return taken.c_str();
}
}
