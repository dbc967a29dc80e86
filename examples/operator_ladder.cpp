// Replaces the kernel that the backend registered for an operator. Compiled, loaded and used by operator_ladder.py and
// the scripts beside it, each time in a short-lived process.
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <list>
#include <string>
#include <vector>

namespace {

// LITERALINCLUDE START: ladder-stand-ins
// Runs the composite kernel that the dispatcher would select if the backend had none; false if there is none.
bool ran_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (const auto key : {c10::DispatchKey::CompositeExplicitAutogradNonFunctional,
                         c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::CompositeImplicitAutograd}) {
    if (op.hasKernelForDispatchKey(key)) {
      op.callBoxedForDispatchKey(key, *stack);
      return true;
    }
  }
  return false;
}

// What happens on a device that has neither a kernel for the operator nor a fallback.
void absent(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!ran_composite(op, stack)) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "the device has no ", op.operator_name());
  }
}

// What happens on a device that has no kernel for the operator, but the backend's own fallback: it is what an operator
// without any kernel gets.
void own_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto without_kernel = c10::Dispatcher::singleton().findSchemaOrThrow("operator_ladder::without_kernel", "");
  const auto fallback = without_kernel.getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
  fallback.callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

void absent_with_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!ran_composite(op, stack)) {
    own_fallback(op, stack);
  }
}

// The fallback that PyTorch provides for all backends.
void pytorch_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }
// LITERALINCLUDE END: ladder-stand-ins

// The dispatcher warns about each kernel that replaces another one, which is the purpose here.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// LITERALINCLUDE START: ladder-replace
template <c10::KernelFunction::BoxedKernelFunction* kernel>
void replace(const std::vector<std::string>& operators) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard silent(&silence);
  static std::list<torch::Library> libraries;  // A registration ends with its library.
  torch::Library& library = libraries.emplace_back(MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1));
  for (const std::string& name : operators) {
    library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<kernel>());
  }
}

TORCH_LIBRARY(operator_ladder, m) {
  m.def("without_kernel() -> ()");
  m.def("absent(str[] operators) -> ()", &replace<&absent>);
  m.def("absent_with_fallback(str[] operators) -> ()", &replace<&absent_with_fallback>);
  m.def("own_fallback(str[] operators) -> ()", &replace<&own_fallback>);
  m.def("pytorch_fallback(str[] operators) -> ()", &replace<&pytorch_fallback>);
}
// LITERALINCLUDE END: ladder-replace

}  // namespace
