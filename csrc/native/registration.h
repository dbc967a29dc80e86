// Registers native kernels in place of others: host kernels of csrc/kernels, or none. The order is native, host, CPU
// fallback, for each operator and each dtype.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/DispatchStub.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace openreg::native {

// LITERALINCLUDE START: native-next
// The operator's kernel on the device before the native one: a host kernel, a composite one, or the fallback.
template <class Op>
const c10::SafeKernelFunction& next_kernel() {
  static const c10::SafeKernelFunction kernel = c10::Dispatcher::singleton()
                                                    .findSchemaOrThrow(Op::name, Op::overload_name)
                                                    .getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
  return kernel;
}

template <class Op>
void call_next(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  next_kernel<Op>().callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

// Calls it with C++ arguments: `Next<at::_ops::mm>::call(self, mat2)`.
template <class Op>
using Next = at::native::call_fallback_fn<&call_next<Op>, Op>;
// LITERALINCLUDE END: native-next

// LITERALINCLUDE START: native-replacing-class
// While it lives, PyTorch does not warn that a registration replaces another one: here that is intended.
class Replacing {
 public:
  Replacing();

 private:
  class Handler final : public c10::WarningHandler {
   public:
    void process(const c10::Warning& warning) override;
    c10::WarningHandler* outer = nullptr;
  };
  Handler handler_;
  std::optional<c10::WarningUtils::WarningHandlerGuard> guard_;
};

// Registers a kernel of the device for an operator, and remembers the previous one.
template <class Op, class Kernel>
void replace_kernel(torch::Library& library, Kernel kernel) {
  static_cast<void>(next_kernel<Op>());
  const std::string overload = Op::overload_name;
  const std::string name = overload.empty() ? Op::name : std::string(Op::name) + "." + overload;
  library.impl(name.c_str(), kernel);
}
// LITERALINCLUDE END: native-replacing-class

// LITERALINCLUDE START: native-replace-stub
// Fills the slot of a stub, and returns what was in it: a host kernel, or null. No function of PyTorch reads the slot:
// it is in the first member of a stub, a DispatchStubImpl.
template <class Stub>
typename Stub::FnPtr replace_stub(Stub& stub, typename Stub::FnPtr kernel) {
  static_assert(std::is_standard_layout_v<Stub> && sizeof(Stub) == sizeof(at::native::DispatchStubImpl));
  void*& slot = reinterpret_cast<at::native::DispatchStubImpl&>(stub).privateuse1_dispatch_ptr;
  return reinterpret_cast<typename Stub::FnPtr>(std::exchange(slot, reinterpret_cast<void*>(kernel)));
}

// For dtypes that have no native kernel: the stub's kernel before this one.
template <class Kernel, class... Arguments>
void call_stub_before(const char* name, Kernel before, at::ScalarType dtype, Arguments&... arguments) {
  TORCH_CHECK_NOT_IMPLEMENTED(before != nullptr, "openreg: ", name, " has no kernel of the device for ", dtype);
  before(arguments...);
}
// LITERALINCLUDE END: native-replace-stub

}  // namespace openreg::native
