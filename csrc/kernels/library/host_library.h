// Structured operators whose kernel is a library function: here one of PyTorch's CPU functions, over the device's
// bytes. A vendor's library takes its place, and the generated code calls it in the same way.
//
// For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "aten/structured/structured.h"
#include "kernels/host_view.h"
#include "kernels/launch.h"
#include "kernels/library/known_dtypes.h"
#include "kernels/library/library_scope.h"

namespace openreg {

// LITERALINCLUDE START: library-arguments
// Converts arguments for a kernel. Tensors become views (host_view.h), since a closure must not hold the caller's
// tensors. A tensor that is passed twice becomes one view, so that the library detects work in place, and tensors that
// share a storage become views of one storage, so that it detects overlap.
class KernelArguments {
 public:
  explicit KernelArguments(c10::Device device) : device_(device) {}

  at::Tensor keep_output(const at::Tensor& tensor) { return keep_tensor(tensor, false); }

  at::Tensor keep(const at::Tensor& tensor) { return keep_tensor(tensor, tensor.defined() && tensor.dim() == 0); }
  std::optional<at::Tensor> keep(const std::optional<at::Tensor>& tensor) {
    return tensor ? std::optional(keep(*tensor)) : std::nullopt;
  }
  std::vector<at::Tensor> keep(const at::ITensorListRef& tensors);
  c10::List<std::optional<at::Tensor>> keep(const c10::List<std::optional<at::Tensor>>& indices);
  at::DimVector keep(at::IntArrayRef numbers) { return at::DimVector(numbers); }
  std::optional<at::DimVector> keep(at::OptionalIntArrayRef numbers) {
    return numbers ? std::optional<at::DimVector>(*numbers) : std::nullopt;
  }
  std::string keep(std::string_view text) { return std::string(text); }
  std::optional<std::string> keep(std::optional<std::string_view> text) {  // NOT PROVEN: none in the list has one
    return text ? std::optional<std::string>(*text) : std::nullopt;        // NOT PROVEN: none in the list has one
  }
  template <class Value>
  Value keep(const Value& value) {
    return value;
  }

  c10::Device device() const { return device_; }
  size_t bytes() const { return bytes_; }

 private:
  at::Tensor keep_tensor(const at::Tensor& tensor, bool may_be_on_cpu);
  void share_storage(const c10::Storage& of_device);

  c10::Device device_;
  c10::SmallVector<std::pair<const c10::TensorImpl*, at::Tensor>, 4> views_;
  size_t bytes_ = 0;
};
// LITERALINCLUDE END: library-arguments

// LITERALINCLUDE START: library-second-half
// Calls PyTorch's second half of a structured operator for the CPU. The device has run the first half: running it
// again, as the operator does on the CPU, would find nothing, and costs as much as a small kernel.
template <class Kernel>
struct SecondHalf final : Kernel {
  const at::Tensor& maybe_get_output(int64_t) override {  // NOT PROVEN: called by first halves only
    TORCH_INTERNAL_ASSERT(false, "the second half of an operator has asked for an output");  // NOT PROVEN: as above
  }
};
template <class Kernel, class... Given>
void second_half(const Given&... arguments) {
  SecondHalf<Kernel>().impl(for_meta(arguments)...);
}
// LITERALINCLUDE END: library-second-half

// LITERALINCLUDE START: library-call
// Converts a kept argument to the library's parameter type, which refers to what is kept.
inline at::OptionalIntArrayRef kept(std::optional<at::DimVector>& numbers) {
  return numbers ? at::OptionalIntArrayRef(*numbers) : at::OptionalIntArrayRef();
}
inline std::optional<std::string_view> kept(std::optional<std::string>& text) {  // NOT PROVEN: none in the list has one
  return text ? std::optional<std::string_view>(*text) : std::nullopt;  // NOT PROVEN: none in the list has one
}
template <class Other>
Other& kept(Other& other) {
  return other;
}

template <class Op, class... Kept>
void compute_kept(Kept&... arguments) {
  Op::compute(kept(arguments)...);
}

// A library call, ready to run as a kernel. The function is a value, not a template parameter, so that the code that
// queues and runs the call is compiled once for all operators with the same argument types.
template <class... Kept>
struct LibraryCall {
  void (*compute)(Kept&...);
  std::tuple<Kept...> arguments;

  void operator()() {
    const LibraryScope scope;  // Whatever the state of the thread that runs the kernel.
    std::apply(compute, arguments);
  }
};

// The types in which a kernel keeps an argument and an output.
template <class Argument>
using KeptOf = decltype(std::declval<KernelArguments&>().keep(std::declval<const Argument&>()));
template <size_t>
using KeptOutput = at::Tensor;
// LITERALINCLUDE END: library-call

// LITERALINCLUDE START: library-known
// Queues a library call, and waits for its errors if the library has not accepted these dtypes before. The scope ends
// before the wait, in which a signal may run the program's handler: what that computes has gradients.
template <class Call>
void launch_known(const char* name, KnownDtypes& known, const Dtypes& dtypes, const KernelArguments& kernel,
                  std::optional<LibraryScope>& scope, Call&& call) {
  const bool is_known = known.has(dtypes);
  if (!is_known) scope.reset();
  const bool has_run =
      openreg::launch(name, kernel.device().index(), kernel.bytes(), std::forward<Call>(call), /*wait=*/!is_known);
  if (!is_known && has_run) known.add(dtypes);
}
// LITERALINCLUDE END: library-known

// LITERALINCLUDE START: library-in-place
// Queues Op::compute(arguments...) for an operator that modifies its arguments, tensors or lists of tensors, and
// returns no new tensor. Requires: every tensor is on the device, and none that is written overlaps itself.
template <class Op, class... Given>
void launch_in_place(c10::Device device, const Given&... arguments) {
  std::optional<LibraryScope> scope(std::in_place);
  static KnownDtypes known;
  KernelArguments kernel(device);
  LibraryCall<KeptOf<Given>...> call{compute_kept<Op, KeptOf<Given>...>, {kernel.keep(arguments)...}};
  launch_known(Op::kName, known, Dtypes(arguments...), kernel, scope, std::move(call));
}
// LITERALINCLUDE END: library-in-place

// LITERALINCLUDE START: library-launch
// Queues compute(arguments..., outputs...).
//
// The call must raise the library's errors. A vendor's library can be queried before the launch; this one raises in the
// middle of the work. So the launch waits for it if it may reject more than dtypes (kWaits): values, or sizes that no
// meta function has checked.
template <bool kWaits, class... Kept, size_t... I, class... Given>
void launch_library(const char* name, KnownDtypes& known, void (*compute)(Kept&...), const Outputs& outputs,
                    std::index_sequence<I...>, const Given&... arguments) {
  // An in-place operator counts no outputs, and a backward may not need its first gradient, or any.
  const std::optional<c10::Device> device = first_device({outputs.get(0), outputs.get(I)...});
  if (!device) {
    return;
  }
  std::optional<LibraryScope> scope(std::in_place);  // Views are made faster without autograd.
  KernelArguments kernel(*device);
  LibraryCall<Kept...> call{compute, {kernel.keep(arguments)..., kernel.keep_output(outputs.get(I))...}};
  if constexpr (kWaits) {
    scope.reset();
    openreg::launch(name, device->index(), kernel.bytes(), std::move(call), /*wait=*/true);
  } else {
    launch_known(name, known, Dtypes(arguments..., outputs.get(I)...), kernel, scope, std::move(call));
  }
}

// The base of an operator whose kernel is Op::compute.
template <class Op, bool kWaits>
struct LibraryKernel {
  template <class... Given>
  static void enqueue(const Outputs& outputs, const Given&... arguments) {
    static KnownDtypes known;
    [&]<size_t... I>(std::index_sequence<I...> indices) {
      launch_library<kWaits>(Op::kName, known, compute_kept<Op, KeptOf<Given>..., KeptOutput<I>...>, outputs, indices,
                             arguments...);
    }(std::make_index_sequence<Op::kOutputs>());
  }
};

// masked_fill_, the most frequent operator without a meta function, must not hold up the caller: its call waits only if
// the library may reject the sizes, or the value of a tensor of another dtype.
template <class Op, bool>
struct MaskedFillKernel {
  static bool fits(const at::Tensor&, const at::Scalar&) { return true; }  // Dtypes looks at numbers.
  static bool fits(const at::Tensor& self, const at::Tensor& value) {
    return value.dim() == 0 && value.scalar_type() == self.scalar_type();
  }

  template <class Value>
  static void enqueue(const Outputs& outputs, const at::Tensor& self, const at::Tensor& mask, const Value& value) {
    const bool is_accepted = at::is_expandable_to(mask.sizes(), self.sizes()) && fits(self, value) &&
                             at::has_internal_overlap(self) == at::MemOverlap::No;
    is_accepted ? LibraryKernel<Op, false>::enqueue(outputs, self, mask, value)
                : LibraryKernel<Op, true>::enqueue(outputs, self, mask, value);
  }
};
// LITERALINCLUDE END: library-launch

}  // namespace openreg
