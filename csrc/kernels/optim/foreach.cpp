// Operators on lists of tensors: _foreach_add_([a, b, c], 1) is one launch, instead of one for each tensor. The kernel
// is the library's loop over the list. Called on any thread, with or without the GIL; the library runs on the device's
// stream.
//
// PyTorch's own kernel for all devices calls an operator for each tensor. It still handles lists that do not fit
// together, and raises the errors.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/MemoryFormat.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/library/host_library.h"
#include "kernels/optim/list_loop.h"
#include "runtime/device.h"

namespace openreg {
namespace {

using torch::jit::Stack;

// LITERALINCLUDE START: foreach-call
// An operator call with views in place of its tensors, ready to run as a kernel.
struct ListCall {
  c10::OperatorHandle op;
  Stack arguments;
  std::vector<at::Tensor> results;  // where results go; none for an in-place operator

  // Leaves the arguments as they are: a captured graph runs the kernel with each replay.
  void operator()() const {
    const LibraryScope scope;
    Stack stack = arguments;
    op.callBoxed(stack);
    for (size_t i = 0; i < results.size(); ++i) results[i].copy_(stack.back().toTensorList().get(i));
  }
};
// LITERALINCLUDE END: foreach-call

// LITERALINCLUDE START: foreach-arguments
// Whether each dimension of size 1 has the stride that it has in a new tensor. A view may have another one, and the
// strides of the results then differ between operators.
bool has_usual_strides(const at::Tensor& tensor) {
  if (std::ranges::count(tensor.sizes(), 1) == 0) return true;
  if (tensor.is_contiguous()) return tensor.strides() == c10::contiguous_strides(tensor.sizes());
  return tensor.is_contiguous(c10::MemoryFormat::ChannelsLast) &&
         tensor.strides() == c10::get_channels_last_strides_2d(tensor.sizes());
}

// The arguments of a call: a slice of the dispatcher's stack.
class Lists {
 public:
  Lists(const c10::OperatorHandle& op, const Stack& stack)
      : op_(op), arguments_(stack.end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size()), stack.end()) {
    for (const c10::IValue& argument : arguments_) {
      if (argument.isTensorList()) lists_.push_back(argument.toTensorVector());
    }
  }

  // Whether one launch computes what a launch for each tensor would: everything is on one device, and of one
  // floating-point dtype, which the results have too; corresponding tensors have the same sizes and strides, and are
  // not empty. There is one scalar, or one for each tensor. A tensor that is written does not partially overlap a
  // corresponding one.
  bool fit() const {
    const size_t count = lists_[0].size();
    const auto is_empty = [](const at::Tensor& tensor) { return tensor.numel() == 0; };
    if (count == 0 || !lists_[0][0].is_privateuseone() || !at::isFloatingType(lists_[0][0].scalar_type()) ||
        std::any_of(lists_[0].begin(), lists_[0].end(), is_empty)) {
      return false;
    }
    const bool in_place = op_.schema().returns().empty();
    if (!in_place && !std::ranges::all_of(lists_[0], has_usual_strides)) return false;
    for (const auto& list : lists_) {
      if (list.size() != count || (in_place && overlaps_first(list))) return false;
    }
    const auto fits = [&](const c10::IValue& argument) {
      if (argument.isTensor()) return fits_beside(argument.toTensor(), in_place);
      if (argument.isTensorList()) return true;
      if (argument.isList()) {
        const auto scalars = argument.toListRef();
        return scalars.size() == count && std::all_of(scalars.begin(), scalars.end(), is_number);
      }
      return is_number(argument) || argument.isNone();
    };
    return std::all_of(arguments_.begin(), arguments_.end(), fits) &&
           at::native::can_use_fast_route(std::vector<at::TensorList>(lists_.begin(), lists_.end()));
  }

  // What the library might reject although the lists fit: their dtype, that of the results, and numbers. A number in a
  // tensor has the dtype of the lists.
  Dtypes dtypes() const {
    Dtypes dtypes(lists_[0][0], dtype());
    for (const c10::IValue& argument : arguments_) {
      if (argument.isScalar()) {
        dtypes.add(argument.toScalar());
      } else if (argument.isList() && !argument.isTensorList()) {
        for (const c10::IValue& scalar : argument.toListRef()) dtypes.add(scalar.toScalar());
      }
    }
    return dtypes;
  }

  const std::vector<at::Tensor>& first() const { return lists_[0]; }

  // Whether the library's loop for this operator can be called by itself. It does not check whether the dtype has the
  // numbers.
  bool fit(const ListLoop* loop, const Dtypes& dtypes) const {
    return loop != nullptr && ListLoop::has(first()[0].scalar_type()) && !dtypes.has_large_number();
  }

  // The dtype of the results, if the caller has named one.
  std::optional<at::ScalarType> dtype() const {
    const bool named = op_.schema().arguments().back().name() == "dtype" && !arguments_.back().isNone();
    return named ? std::optional(arguments_.back().toScalarType()) : std::nullopt;
  }

  // The call, with view(tensor) in place of each tensor.
  template <class View>
  ListCall on(const View& view, const std::vector<at::Tensor>& results) const {
    ListCall call{op_, {}, {}};
    std::ranges::transform(results, std::back_inserter(call.results), view);
    call.arguments.reserve(arguments_.size());
    auto list = lists_.begin();
    for (const c10::IValue& argument : arguments_) {
      if (argument.isTensorList()) {
        c10::List<at::Tensor> views;
        views.reserve(list->size());
        for (const at::Tensor& tensor : *list++) views.push_back(view(tensor));
        call.arguments.emplace_back(std::move(views));
      } else if (argument.isTensor()) {
        const at::Tensor tensor = argument.toTensor();
        call.arguments.emplace_back(tensor.is_cpu() ? tensor.clone() : view(tensor));  // its caller may change it
      } else {
        call.arguments.push_back(argument);
      }
    }
    return call;
  }

  // The same call of a loop: lists that fit have adjacent elements, in one order.
  ListLoopCall on(const ListLoop* loop, const std::vector<at::Tensor>& results) const {
    ListLoopCall call{loop, first()[0].scalar_type(), 1 + lists_.size()};
    for (const c10::IValue& argument : arguments_) add_number(call, argument);
    call.parts.reserve(first().size());
    for (size_t i = 0; i < first().size(); ++i) {
      ListPart& part = call.parts.emplace_back(ListPart{{}, first()[i].numel()});
      for (size_t list = 0; list < lists_.size(); ++list) part.at[1 + list] = address(lists_[list][i]);
      part.at[0] = results.empty() ? part.at[1] : address(results[i]);
    }
    return call;
  }

  size_t bytes() const {
    size_t bytes = 0;
    for (const auto& list : lists_) {
      for (const at::Tensor& tensor : list) bytes += tensor.nbytes();
    }
    return bytes;
  }

 private:
  static char* address(const at::Tensor& tensor) {
    return static_cast<char*>(host_alias(tensor.mutable_data_ptr(), tensor.nbytes()));
  }
  // Adds the number that an argument is, or one for each tensor.
  static void add_number(ListLoopCall& call, const c10::IValue& argument) {
    if (argument.isScalar()) {
      call.numbers.push_back(argument.toScalar().to<double>());
    } else if (argument.isTensor()) {
      const at::Tensor number = argument.toTensor();
      if (number.is_cpu()) {
        call.numbers.push_back(read_number(number.const_data_ptr(), number.scalar_type()));
      } else {
        call.number_at = address(number);
      }
    } else if (argument.isList() && !argument.isTensorList()) {
      for (const c10::IValue& number : argument.toListRef()) call.numbers.push_back(number.toScalar().to<double>());
    }
  }
  bool overlaps_first(const std::vector<at::Tensor>& list) const {
    return !std::equal(list.begin(), list.end(), lists_[0].begin(), [](const at::Tensor& one, const at::Tensor& first) {
      return at::get_overlap_status(one, first) != at::MemOverlapStatus::Partial;
    });
  }
  // A number that the call itself changes would be another one for the rest of the list.
  bool fits_beside(const at::Tensor& number, bool in_place) const {
    const at::Tensor& model = lists_[0][0];
    const auto is_changed = [&](const at::Tensor& written) { return in_place && written.is_alias_of(number); };
    return number.dim() == 0 && number.dtype() == model.dtype() &&
           (number.is_cpu() || number.device() == model.device()) && std::ranges::none_of(lists_[0], is_changed);
  }
  static bool is_number(const c10::IValue& value) { return value.isInt() || value.isDouble(); }

  const c10::OperatorHandle& op_;
  const Stack arguments_;
  std::vector<std::vector<at::Tensor>> lists_;
};
// LITERALINCLUDE END: foreach-arguments

// LITERALINCLUDE START: foreach-kernel
// The tensors that an operator returns: like those of its first list, or a number for each, in the dtype that the
// caller has named, if any.
std::vector<at::Tensor> new_results(const c10::FunctionSchema& schema, const Lists& lists) {
  std::vector<at::Tensor> results;
  if (schema.returns().empty()) {
    return results;
  }
  const std::string& name = schema.name();
  const bool numbers = name == "aten::_foreach_norm" || name == "aten::_foreach_powsum" || name == "aten::_foreach_max";
  for (const at::Tensor& tensor : lists.first()) {
    results.push_back(numbers ? at::empty({}, tensor.options().dtype(lists.dtype().value_or(tensor.scalar_type())))
                              : at::empty_like(tensor));
  }
  return results;
}

// One operator of the family, and the dtypes that it has accepted.
class ForeachKernel final : public c10::OperatorKernel {
 public:
  explicit ForeachKernel(const ListLoop* loop) : loop_(loop) {}  // NOT PROVEN: runs when the library is loaded

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    const Lists lists(op, *stack);
    if (!lists.fit()) {
      // PyTorch's kernel for all devices, through the key of the CPU, which has no kernel of its own.
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
      return;
    }
    const at::Tensor& model = lists.first()[0];
    const c10::OptionalDeviceGuard guard(unless_current(model.device()));
    const std::vector<at::Tensor> results = new_results(op.schema(), lists);
    if (op.schema().returns().empty()) {
      // By the version, autograd detects that a saved tensor was modified. For lists, the kernel must increment it.
      for (const at::Tensor& tensor : lists.first()) tensor.unsafeGetTensorImpl()->bump_version();
    }
    const char* const name = op.schema().name().c_str();
    const Dtypes dtypes = lists.dtypes();
    if (lists.fit(loop_, dtypes)) {
      launch(name, model.device().index(), lists.bytes(), lists.on(loop_, results));
    } else {
      const bool is_known = known_.has(dtypes);
      std::optional<LibraryScope> scope(std::in_place);
      ListCall call = lists.on(host_view, results);
      if (!is_known) scope.reset();  // before the wait, as in launch_known()
      const bool has_run = launch(name, model.device().index(), lists.bytes(), std::move(call), /*wait=*/!is_known);
      if (!is_known && has_run) known_.add(dtypes);
    }
    torch::jit::drop(*stack, op.schema().arguments().size());
    if (!op.schema().returns().empty()) torch::jit::push(*stack, results);
  }

 private:
  const ListLoop* const loop_;
  KnownDtypes known_;
};
// LITERALINCLUDE END: foreach-kernel

// LITERALINCLUDE START: foreach-registration
// All operators of this family, except the out= overloads, which call them. Those in kOthers do not apply one function
// to a list: their results have other sizes or strides, or come from another device.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  constexpr std::string_view kOthers[] = {"aten::_foreach_copy", "aten::_foreach_copy_", "aten::_foreach_clone",
                                          "aten::_foreach_mm"};
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const bool is_other = std::find(std::begin(kOthers), std::end(kOthers), name.name) != std::end(kOthers);
    if (name.name.starts_with("aten::_foreach_") && !name.overload_name.ends_with("out") && !is_other) {
      const ListLoop* const loop = find_list_loop(name.name, name.overload_name);
      m.impl(toString(name).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<ForeachKernel>(loop)));
    }
  }
}
// LITERALINCLUDE END: foreach-registration

}  // namespace
}  // namespace openreg
