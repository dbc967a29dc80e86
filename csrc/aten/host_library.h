// Structured operators whose kernel is a function of a library: here of PyTorch's own for the CPU, over the device's
// bytes. A vendor's library takes the same place, and the generated code calls it in the same way.
//
// For kernel files only (see launch.h).
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
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
  std::vector<at::Tensor> keep(const at::ITensorListRef& tensors) {
    std::vector<at::Tensor> kept;
    kept.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) kept.push_back(keep(tensor));
    return kept;
  }
  c10::List<std::optional<at::Tensor>> keep(const c10::List<std::optional<at::Tensor>>& indices) {
    c10::List<std::optional<at::Tensor>> kept;
    for (const std::optional<at::Tensor>& index : indices) {
      kept.push_back(keep_tensor(index.value_or(at::Tensor()), true));
    }
    return kept;
  }
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
  // A CPU tensor may stand beside those of the device as a number or as an index.
  at::Tensor keep_tensor(const at::Tensor& tensor, bool may_be_on_cpu, bool written = false) {
    if (!tensor.defined()) {
      return {};
    }
    for (const auto& [given, view] : views_) {
      if (given == tensor.unsafeGetTensorImpl()) {
        return view;
      }
    }
    TORCH_CHECK(tensor.device() == device_ || (tensor.is_cpu() && may_be_on_cpu),
                "Expected all tensors to be on the same device, but found at least two devices, ", device_, " and ",
                tensor.device(), "!");
    views_.emplace_back(tensor.unsafeGetTensorImpl(), tensor.is_cpu() ? copy(tensor) : view_(tensor, written));
    bytes_ += tensor.nbytes();
    return views_.back().second;
  }
  // The caller may change a CPU tensor after the call.
  static at::Tensor copy(const at::Tensor& tensor) {
    at::Tensor copied = tensor.clone();
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      // It does not take part in type promotion as a tensor.
      copied.unsafeGetTensorImpl()->set_wrapped_number(true);  // NOT PROVEN: what takes numbers ends in stubs
    }
    return copied;
  }

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

// A call of Op::compute, ready to run as a kernel.
template <class Op, class Arguments>
struct LibraryCall {
  Arguments arguments;

  void operator()() {
    const LibraryScope scope;  // In whichever state the thread is that runs the kernel.
    std::apply([](auto&... argument) { Op::compute(kept(argument)...); }, arguments);
  }
};
// LITERALINCLUDE END: library-call

// LITERALINCLUDE START: library-rehearsal
// In the place of a tensor: zeros, as many as it has elements, but one where they are only read.
inline at::Tensor stand_in(const at::Tensor& tensor, bool written) {
  const at::TensorOptions options = tensor.options().device(c10::kCPU);
  return written ? at::zeros(tensor.sizes(), options) : at::zeros({}, options).expand(tensor.sizes());
}
// LITERALINCLUDE END: library-rehearsal

// LITERALINCLUDE START: library-tried
// Queues the call that prepare makes of arguments on the device. Where the kind is new, it is made of stand-ins and
// tried on the host before.
template <class Op, class Prepare>
void launch_tried(c10::Device device, uint64_t kind, const Prepare& prepare) {
  KernelArguments kernel(device, [](const at::Tensor& tensor, bool) { return host_view(tensor); });
  auto call = prepare(kernel);
  static KnownKinds known;
  if (!known.has(kind)) {
    KernelArguments zeros(device, stand_in);
    prepare(zeros)();
    known.add(kind);
  }
  openreg::launch(Op::kName, device.index(), kernel.bytes(), std::move(call));
}
// LITERALINCLUDE END: library-tried

// LITERALINCLUDE START: library-in-place
// Queues Op::compute(arguments...), for an operator that changes tensors it was given, be it whole lists, and that
// returns no new one. Requires: every tensor is on the device, and none of `written` overlaps itself.
template <class Op, class... Arguments>
void launch_in_place(c10::Device device, std::initializer_list<at::TensorList> written, const Arguments&... arguments) {
  const LibraryScope scope;
  launch_tried<Op>(device, KnownKinds::kind_of(arguments...), [&](KernelArguments& kernel) {
    for (const at::TensorList tensors : written) {
      for (const at::Tensor& tensor : tensors) kernel.keep_output(tensor);
    }
    auto kept = std::make_tuple(kernel.keep(arguments)...);
    return LibraryCall<Op, decltype(kept)>{std::move(kept)};
  });
}
// LITERALINCLUDE END: library-in-place

// LITERALINCLUDE START: library-launch
// Queues Op::compute(arguments..., outputs...).
//
// A vendor's library tells at once that it has no kernel for a dtype. This one raises in the middle of the work, and a
// kernel that raises takes its device with it. So before the first launch of each kind the function is called on the
// host, with zeros for the tensors. Where no meta function has checked the sizes (kBySizes) each new set of them is a
// kind. Where the library refuses values (kWaits) the launch waits for what it says.
template <class Op, bool kWaits, bool kBySizes = false>
struct LibraryKernel {
  template <class... Arguments>
  static void launch(const Outputs& outputs, const Arguments&... arguments) {
    launch_with(outputs, std::make_index_sequence<Op::kOutputs>(), arguments...);
  }

 private:
  template <size_t... I, class... Arguments>
  static void launch_with(const Outputs& outputs, std::index_sequence<I...> indices, const Arguments&... arguments) {
    // An operator in place counts no outputs, and of gradients the first, or all, may not have been asked for.
    const std::optional<c10::Device> writes_to = FirstDevice::of(outputs.get(0), outputs.get(I)...);
    if (!writes_to) {
      return;
    }
    const c10::Device device = *writes_to;
    const LibraryScope scope;  // Views are made faster when autograd need not know of them.
    if constexpr (kWaits) {
      KernelArguments kernel(device, [](const at::Tensor& tensor, bool) { return host_view(tensor); });
      auto call = prepared(kernel, outputs, indices, arguments...);
      launch_and_wait(Op::kName, device.index(), kernel.bytes(), std::move(call));
    } else {
      uint64_t kind = KnownKinds::kind_of(arguments..., outputs.get(I)...);
      if constexpr (kBySizes) {
        kind = c10::hash_combine(kind, KnownSizes::kind_of(arguments..., outputs.get(I)...));
      }
      launch_tried<Op>(device, kind,
                       [&](KernelArguments& kernel) { return prepared(kernel, outputs, indices, arguments...); });
    }
  }

  template <size_t... I, class... Arguments>
  static auto prepared(KernelArguments& kernel, const Outputs& outputs, std::index_sequence<I...>,
                       const Arguments&... arguments) {
    kernel.keep_output(outputs.get(0));
    auto last = std::make_tuple(kernel.keep_output(outputs.get(I))...);
    auto first = std::make_tuple(kernel.keep(arguments)...);
    auto all = std::tuple_cat(std::move(first), std::move(last));
    return LibraryCall<Op, decltype(all)>{std::move(all)};
  }
};
// Where PyTorch's function for the CPU checks sizes, and computes shapes, in one with the work.
template <class Op, bool kWaits>
using UnsplitKernel = LibraryKernel<Op, kWaits, /*kBySizes=*/true>;
// LITERALINCLUDE END: library-launch

}  // namespace openreg
