// Structured operators whose kernel is a function of a library: here of PyTorch's own for the CPU, over the device's
// bytes. A vendor's library takes the same place, and the generated code calls it in the same way.
//
// For kernel files only (see launch.h).
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "aten/host_view.h"
#include "aten/known_kinds.h"
#include "aten/launch.h"
#include "aten/library_scope.h"
#include "aten/structured.h"

namespace openreg {

// LITERALINCLUDE START: library-arguments
// Arguments on their way into a kernel. Tensors become views (host_view.h), since a closure must not hold what the
// caller holds. A tensor that is given twice becomes one view, so that the library sees that it works in place.
class KernelArguments {
 public:
  // View: from a tensor of the device, and whether it is written, to one of the CPU.
  using View = at::Tensor (*)(const at::Tensor& tensor, bool written);

  KernelArguments(c10::Device device, View view) : device_(device), view_(view) {}

  // To be called before the others: a tensor that is read and written is one that is written.
  at::Tensor keep_output(const at::Tensor& tensor) { return keep_tensor(tensor, false, true); }

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

  size_t bytes() const { return bytes_; }

 private:
  at::Tensor keep_tensor(const at::Tensor& tensor, bool may_be_on_cpu, bool written = false);

  c10::Device device_;
  View view_;
  c10::SmallVector<std::pair<const c10::TensorImpl*, at::Tensor>, 4> views_;
  size_t bytes_ = 0;
};
// LITERALINCLUDE END: library-arguments

// LITERALINCLUDE START: library-call
// The views of kept arguments that refer to what is kept.
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

// A call of the library, ready to run as a kernel: which function it is, is a value, so that the code that queues and
// runs the call is compiled once for all operators with the same types of arguments.
template <class... Kept>
struct LibraryCall {
  void (*compute)(Kept&...);
  std::tuple<Kept...> arguments;

  void operator()() {
    const LibraryScope scope;  // In whichever state the thread is that runs the kernel.
    std::apply(compute, arguments);
  }
};

// What a kernel keeps of an argument, and of each output.
template <class Argument>
using KeptOf = decltype(std::declval<KernelArguments&>().keep(std::declval<const Argument&>()));
template <size_t>
using KeptOutput = at::Tensor;
// LITERALINCLUDE END: library-call

// In the place of a tensor: zeros, as many as it has elements, but one where they are only read.
at::Tensor stand_in(const at::Tensor& tensor, bool written);

// LITERALINCLUDE START: library-tried
// Queues the call that prepare makes of arguments on the device. Where the kind is new, it is made of stand-ins and
// tried on the host before.
template <class Prepare>
void launch_tried(const char* name, KnownKinds& known, c10::Device device, uint64_t kind, const Prepare& prepare) {
  KernelArguments kernel(device, [](const at::Tensor& tensor, bool) { return host_view(tensor); });
  auto call = prepare(kernel);
  if (!known.has(kind)) {
    KernelArguments zeros(device, stand_in);
    prepare(zeros)();
    known.add(kind);
  }
  openreg::launch(name, device.index(), kernel.bytes(), std::move(call));
}
// LITERALINCLUDE END: library-tried

// LITERALINCLUDE START: library-in-place
// Queues Op::compute(arguments...), for an operator that changes tensors it was given, be it whole lists, and that
// returns no new one. Requires: every tensor is on the device, and none of `written` overlaps itself.
template <class Op, class... Given>
void launch_in_place(c10::Device device, std::initializer_list<at::TensorList> written, const Given&... arguments) {
  const LibraryScope scope;
  static KnownKinds known;
  launch_tried(Op::kName, known, device, KnownKinds::kind_of(arguments...), [&](KernelArguments& kernel) {
    for (const at::TensorList tensors : written) {
      for (const at::Tensor& tensor : tensors) kernel.keep_output(tensor);
    }
    return LibraryCall<KeptOf<Given>...>{compute_kept<Op, KeptOf<Given>...>, {kernel.keep(arguments)...}};
  });
}
// LITERALINCLUDE END: library-in-place

// LITERALINCLUDE START: library-launch
// Queues compute(arguments..., outputs...).
//
// A vendor's library tells at once that it has no kernel for a dtype. This one raises in the middle of the work, and a
// kernel that raises takes its device with it. So before the first launch of each kind the function is called on the
// host, with zeros for the tensors. Where no meta function has checked the sizes (kBySizes) each new set of them is a
// kind. Where the library refuses values (kWaits) the launch waits for what it says.
template <bool kWaits, bool kBySizes, class... Kept, size_t... I, class... Given>
void launch_library(const char* name, KnownKinds& known, void (*compute)(Kept&...), const Outputs& outputs,
                    std::index_sequence<I...>, const Given&... arguments) {
  // An operator in place counts no outputs, and of gradients the first, or all, may not have been asked for.
  const std::optional<c10::Device> device = first_device({outputs.get(0), outputs.get(I)...});
  if (!device) {
    return;
  }
  const LibraryScope scope;  // Views are made faster when autograd need not know of them.
  const auto prepare = [&](KernelArguments& kernel) {
    kernel.keep_output(outputs.get(0));
    (kernel.keep_output(outputs.get(I)), ...);
    return LibraryCall<Kept...>{compute, {kernel.keep(arguments)..., kernel.keep_output(outputs.get(I))...}};
  };
  if constexpr (kWaits) {
    KernelArguments kernel(*device, [](const at::Tensor& tensor, bool) { return host_view(tensor); });
    auto call = prepare(kernel);
    launch_and_wait(name, device->index(), kernel.bytes(), std::move(call));
  } else {
    uint64_t kind = KnownKinds::kind_of(arguments..., outputs.get(I)...);
    if constexpr (kBySizes) {
      kind = c10::hash_combine(kind, KnownSizes::kind_of(arguments..., outputs.get(I)...));
    }
    launch_tried(name, known, *device, kind, prepare);
  }
}

// The base of an operator whose kernel is Op::compute.
template <class Op, bool kWaits, bool kBySizes = false>
struct LibraryKernel {
  template <class... Given>
  static void launch(const Outputs& outputs, const Given&... arguments) {
    static KnownKinds known;
    [&]<size_t... I>(std::index_sequence<I...> indices) {
      launch_library<kWaits, kBySizes>(Op::kName, known, compute_kept<Op, KeptOf<Given>..., KeptOutput<I>...>, outputs,
                                       indices, arguments...);
    }(std::make_index_sequence<Op::kOutputs>());
  }
};
// Where PyTorch's function for the CPU checks sizes, and computes shapes, in one with the work.
template <class Op, bool kWaits>
using UnsplitKernel = LibraryKernel<Op, kWaits, /*kBySizes=*/true>;
// LITERALINCLUDE END: library-launch

}  // namespace openreg
