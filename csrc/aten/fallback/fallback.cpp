// The CPU fallback: one boxed function that runs any operator for which the device has no kernel.
//
// "Boxed" means that the arguments arrive as a stack of IValues, which the schema describes, so that one function fits
// every operator. Called on any thread, with or without the GIL; waits for the device.
#include "aten/fallback/fallback.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "aten/fallback/policy.h"
#include "aten/fallback/random.h"
#include "runtime/capture.h"
#include "runtime/stream.h"
#include "runtime/tensor_meta.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// LITERALINCLUDE START: fallback-unsaid
// Two operators write the running statistics although their schemas do not say so. If the statistics were not copied
// back, a trained model would give wrong results as soon as it is evaluated.
bool is_written(const c10::OperatorHandle& op, const c10::Argument& argument) {
  const std::string& name = op.operator_name().name;
  const bool unsaid = (name == "aten::native_batch_norm" || name == "aten::batch_norm_update_stats") &&
                      (argument.name() == "running_mean" || argument.name() == "running_var");
  return unsaid || is_written(argument);
}
// LITERALINCLUDE END: fallback-unsaid

// LITERALINCLUDE START: fallback-check-schema
// Rejects operators for which a round trip through the CPU cannot give the right answer, whatever the arguments are.
void check_schema(const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
                              "openreg: ", op.operator_name(),
                              " has no kernel for openreg, and none for the CPU to fall back to: register a kernel "
                              "with TORCH_LIBRARY_IMPL(..., PrivateUse1, ...)");
  for (const c10::Argument& result : op.schema().returns()) {
    TORCH_CHECK_NOT_IMPLEMENTED(result.alias_info() == nullptr || is_written(result), "openreg: ", op.operator_name(),
                                " returns a view of its argument, and the CPU fallback could only return a copy: "
                                "register a kernel for it");
  }
}
// LITERALINCLUDE END: fallback-check-schema

// LITERALINCLUDE START: fallback-layout
// Copies a tensor to the host with the same layout: kernels add in an order that depends on the layout, and lay out
// their results like their arguments. Dimensions that expand() repeats are copied once. A view that leaves out most of
// the memory that it spans is copied without the gaps.
at::Tensor copy_to_host(const at::Tensor& tensor) {
  constexpr size_t kMostBytes = 4;  // copied at most, for each byte that is needed
  at::Tensor once = tensor;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) once = once.narrow(dim, 0, 1);
  }
  const size_t span = at::detail::computeStorageNbytes(once.sizes(), once.strides(), once.itemsize());
  at::Tensor host;
  if (once.is_non_overlapping_and_dense() || span > kMostBytes * once.nbytes()) {
    host = once.to(c10::kCPU);
  } else {
    host = at::empty_strided(once.sizes(), once.strides(), once.options().device(c10::kCPU)).copy_(once);
  }
  return once.is_same(tensor) ? host : host.expand(tensor.sizes());
}
// LITERALINCLUDE END: fallback-layout

// LITERALINCLUDE START: fallback-tensors
// Replaces each tensor in a value by replace(tensor). A value may be a tensor, a list of tensors, or a list of optional
// tensors.
template <class Replace>
void replace_tensors(c10::IValue& value, Replace replace) {
  if (value.isTensor()) {
    value = replace(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& tensor : tensors) tensor = replace(tensor);
    value = tensors;
  } else if (value.isOptionalTensorList()) {
    std::vector<std::optional<at::Tensor>> tensors = value.toOptionalTensorVector();
    for (std::optional<at::Tensor>& tensor : tensors) {
      if (tensor.has_value()) tensor = replace(*tensor);
    }
    value = c10::List<std::optional<at::Tensor>>(tensors);
  }
}
// LITERALINCLUDE END: fallback-tensors

// One call of one operator, from its stack of device arguments to its stack of device results.
class FallbackCall {
 public:
  FallbackCall(const c10::OperatorHandle& op, torch::jit::Stack* stack) : op_(op), stack_(stack) {}

  // LITERALINCLUDE START: fallback-steps
  void run() {
    find_device();
    if (orStream_t stream = current_stream_handle(device_->index()); is_capturing(stream)) {
      refuse_in_capture(stream, c10::str(op_.operator_name(), " has no kernel for openreg and falls back to the CPU"));
    }
    replace_arguments();
    check_overlap();
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    write_back();
    replace_results();
  }
  // LITERALINCLUDE END: fallback-steps

 private:
  struct Copy {
    at::Tensor device;
    at::Tensor host;
  };

  // Calls visit(argument, tensor) for each tensor among the arguments.
  template <class Visit>
  void for_each_tensor(Visit visit) {
    const auto& arguments = op_.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue value = torch::jit::last(*stack_, arguments.size())[i];
      replace_tensors(value, [&](const at::Tensor& tensor) {
        visit(arguments[i], tensor);
        return tensor;
      });
    }
  }

  // LITERALINCLUDE START: fallback-find-device
  // Results belong on the device that the call names, or otherwise on that of its tensors. The first argument does not
  // decide: in `1 - x` it is a CPU scalar.
  void find_device() {
    for_each_tensor([this](const c10::Argument& argument, const at::Tensor& tensor) {
      if (tensor.is_privateuseone()) {
        TORCH_CHECK(!device_ || *device_ == tensor.device(), "openreg: all tensors of ", op_.operator_name(),
                    " must be on one device, but argument '", argument.name(), "' is on ", tensor.device(),
                    " and an earlier one on ", *device_);
        device_ = tensor.device();
      }
    });
    for (const c10::IValue& value : torch::jit::last(*stack_, op_.schema().arguments().size())) {
      if (value.isDevice() && value.toDevice().is_privateuseone()) {
        const c10::DeviceGuard guard(value.toDevice());  // Refuses an index out of range, and resolves "openreg".
        device_ = guard.current_device();
      }
    }
    TORCH_CHECK(device_.has_value(), "openreg: ", op_.operator_name(),
                " was called without a tensor or device of openreg");
    for_each_tensor(
        [this](const c10::Argument& argument, const at::Tensor& tensor) { check_device(argument, tensor); });
  }
  // LITERALINCLUDE END: fallback-find-device

  // LITERALINCLUDE START: fallback-check-device
  // As on every accelerator, a CPU tensor may accompany device tensors as a number (zero dimensions) or as an index
  // (the elements of Tensor?[]).
  void check_device(const c10::Argument& argument, const at::Tensor& tensor) const {
    if (!tensor.defined() || tensor.is_privateuseone()) {
      return;
    }
    const bool is_index = argument.type()->isSubtypeOf(*c10::ListType::create(c10::OptionalType::ofTensor()));
    TORCH_CHECK(tensor.is_cpu() && (tensor.dim() == 0 || is_index) && !is_written(op_, argument),
                "openreg: expected all tensors to be on the same device, but argument '", argument.name(), "' of ",
                op_.operator_name(), " is on ", tensor.device(), " and another one on ", *device_,
                ": move it with .to(\"", *device_, "\")");
  }
  // LITERALINCLUDE END: fallback-check-device

  // LITERALINCLUDE START: fallback-replace-arguments
  void replace_arguments() {
    const auto& arguments = op_.schema().arguments();
    bool has_generator = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue& value = (*stack_)[stack_->size() - arguments.size() + i];
      replace_tensors(value, [&](const at::Tensor& tensor) { return to_host(arguments[i], tensor); });
      if (value.isDevice()) {
        value = c10::Device(c10::kCPU);
      } else if (is_generator(arguments[i])) {
        value = stand_in_generator(value.isNone() ? at::Generator() : value.toGenerator(), *device_);
        has_generator = true;
      }
      TORCH_CHECK_NOT_IMPLEMENTED(!value.isStorage(), "openreg: argument '", arguments[i].name(), "' of ",
                                  op_.operator_name(),
                                  " is a storage, which the CPU fallback cannot copy: register a "
                                  "kernel for it");
    }
    TORCH_CHECK_NOT_IMPLEMENTED(has_generator || !op_.hasTag(at::Tag::nondeterministic_seeded),
                                "openreg: ", op_.operator_name(),
                                " draws random numbers but takes no generator, so the CPU fallback cannot make it obey "
                                "the device's seed: register a kernel for it");
  }
  // LITERALINCLUDE END: fallback-replace-arguments

  // LITERALINCLUDE START: fallback-check-overlap
  // Rejects an output that shares part of its memory with another argument. Most of the CPU's kernels would reject it,
  // too, but see the copies, which share nothing; some compute in a copy, and a few return wrong numbers.
  void check_overlap() const {
    for (const c10::TensorImpl* written : written_) {
      for (const auto& [impl, copy] : copies_) {
        at::assert_no_partial_overlap(copies_.at(written).device, copy.device);
      }
    }
  }
  // LITERALINCLUDE END: fallback-check-overlap

  static bool is_generator(const c10::Argument& argument) {
    return argument.type()->isSubtypeOf(*c10::OptionalType::create(c10::GeneratorType::get()));
  }

  // LITERALINCLUDE START: fallback-permission
  // torch.openreg.forbid_fallback marks a tensor that must never be copied to the CPU.
  void check_permission(const c10::Argument& argument, const at::Tensor& tensor) const {
    TORCH_CHECK_NOT_IMPLEMENTED(!forbids_fallback(tensor), "openreg: ", op_.operator_name(),
                                " has no kernel for openreg, and its argument '", argument.name(),
                                "' forbids to be copied to the CPU (torch.openreg.forbid_fallback): register a kernel, "
                                "or pass a copy of the tensor");
  }
  // LITERALINCLUDE END: fallback-permission

  // LITERALINCLUDE START: fallback-copy-to-host
  // A tensor that is passed twice is copied once, so that the CPU kernel sees one tensor too.
  at::Tensor to_host(const c10::Argument& argument, const at::Tensor& tensor) {
    if (!tensor.is_privateuseone()) {
      return tensor;
    }
    check_permission(argument, tensor);
    if (is_written(op_, argument)) {
      at::assert_no_internal_overlap(tensor);  // Not every CPU kernel rejects it.
      written_.insert(tensor.unsafeGetTensorImpl());
    }
    const auto [found, is_new] = copies_.try_emplace(tensor.unsafeGetTensorImpl());
    if (is_new) {
      found->second = {tensor, copy_to_host(tensor)};
    }
    return found->second.host;
  }
  // LITERALINCLUDE END: fallback-copy-to-host

  // LITERALINCLUDE START: fallback-write-back
  void write_back() {
    for (const auto& [impl, copy] : copies_) {
      if (written_.count(impl) == 0) {
        continue;
      }
      if (copy.device.sizes() != copy.host.sizes()) {
        // The operator gave its output another shape, and perhaps other strides.
        copy.device.resize_(copy.host.sizes());
        if (copy.host.is_non_overlapping_and_dense()) {
          copy.device.as_strided_(copy.host.sizes(), copy.host.strides());
        }
      }
      copy.device.copy_(copy.host);
    }
  }
  // LITERALINCLUDE END: fallback-write-back

  void replace_results() {
    const size_t count = op_.schema().returns().size();
    for (size_t i = stack_->size() - count; i < stack_->size(); ++i) {
      replace_tensors((*stack_)[i], [this](const at::Tensor& tensor) { return to_device(tensor); });
    }
  }

  // LITERALINCLUDE START: fallback-result-to-device
  // A result that is one of the arguments becomes that argument again; any other becomes a new tensor with the same
  // strides.
  at::Tensor to_device(const at::Tensor& host) const {
    if (!host.defined()) {
      return {};
    }
    for (const auto& [impl, copy] : copies_) {
      if (copy.host.is_same(host)) {
        return copy.device;
      }
    }
    return host.to(*device_);
  }
  // LITERALINCLUDE END: fallback-result-to-device

  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  std::optional<c10::Device> device_;
  std::unordered_map<const c10::TensorImpl*, Copy> copies_;
  std::unordered_set<const c10::TensorImpl*> written_;
};

}  // namespace

namespace {

// LITERALINCLUDE START: fallback-recursion
// Marks an operator as being run by the fallback on this thread. The fallback itself calls to, empty_strided, resize_
// and copy_: one of them without a kernel would fall back in turn, until the stack overflows. What the handler of a
// signal calls while the fallback waits is no part of it.
class Serving {
 public:
  explicit Serving(const c10::OperatorHandle& op)
      : name_(op.operator_name()), depth_(interrupt_depth()), outer_(innermost_) {
    for (const Serving* other = outer_; other != nullptr && other->depth_ == depth_; other = other->outer_) {
      TORCH_CHECK_NOT_IMPLEMENTED(!(other->name_ == name_), "openreg: the CPU fallback needs ", name_,
                                  " for its own copies, so it cannot run it: register a kernel for it");
    }
    innermost_ = this;
  }
  ~Serving() { innermost_ = outer_; }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  inline static thread_local const Serving* innermost_ = nullptr;
  const c10::OperatorName& name_;
  const int depth_;
  const Serving* outer_;
};
// LITERALINCLUDE END: fallback-recursion

}  // namespace

// LITERALINCLUDE START: fallback-entry
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Serving serving(op);
  check_schema(op);
  admit_fallback(op.operator_name());
  // The copies are part of this one operator: autograd has recorded it already, and must not record them.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  FallbackCall(op, stack).run();
}
// LITERALINCLUDE END: fallback-entry

namespace {

// LITERALINCLUDE START: fallback-for-all-operators
// Serves every operator, of any namespace, that has neither a kernel for the device nor a composite one.
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }
// LITERALINCLUDE END: fallback-for-all-operators

// LITERALINCLUDE START: fallback-for-one-operator
// An operator with a composite kernel never reaches the fallback above, since the dispatcher prefers the composite
// kernel. Some are composite in name only: conj_physical_ calls no operator but a stub that is not registered for this
// device, and most of the others read their arguments as host memory. _linalg_solve_ex allocates before it compares
// devices.
constexpr const char* kByFallback[] = {
    "conj_physical_",          "_linalg_solve_ex",         "_rowwise_prune",
    "_sobol_engine_draw",      "_sobol_engine_ff_",        "_sobol_engine_initialize_state_",
    "_sobol_engine_scramble_", "choose_qparams_optimized",
};

// A packed weight is a host object that a tensor only wraps: it cannot be copied back from the CPU.
constexpr const char* kOfHostObjects[] = {
    "fbgemm_linear_fp16_weight",
    "fbgemm_linear_fp16_weight.out",
    "fbgemm_linear_fp16_weight_fp32_activation",
    "fbgemm_linear_fp16_weight_fp32_activation.out",
    "fbgemm_linear_int8_weight",
    "fbgemm_linear_int8_weight_fp32_activation",
    "fbgemm_linear_quantize_weight",
    "fbgemm_pack_gemm_matrix_fp16",
    "fbgemm_pack_quantized_matrix",
    "fbgemm_pack_quantized_matrix.KN",
};

void refuse_host_object(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "openreg: ", op.operator_name(), " packs weights for the CPU, and takes tensors ",
                              "of the CPU alone: move its arguments there");  // NOT PROVEN: continues the line above
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : kByFallback) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
  for (const char* name : kOfHostObjects)
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_host_object>());
}
// LITERALINCLUDE END: fallback-for-one-operator

}  // namespace
}  // namespace openreg
