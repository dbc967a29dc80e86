// The part of a structured operator's call that all of them share (structured.h): setting outputs and checking
// arguments. Compiled once, and not for each operator. Called on any thread, with or without the GIL.
#include "aten/structured/structured.h"

#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/Resize.h>

#include "runtime/device.h"

namespace openreg {

// LITERALINCLUDE START: structured-given-outputs
void set_given(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
               const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
              out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
              out.device(), " instead");
  if (!at::native::resize_output(out, sizes)) {
    return;  // It has these sizes already, and keeps its strides.
  }
  if (!strides.empty()) {
    out.as_strided_(sizes, strides);
  } else if (const auto format = options.memory_format_opt()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
}
// LITERALINCLUDE END: structured-given-outputs

// LITERALINCLUDE START: structured-in-own-layout
at::Tensor in_own_layout(const at::Tensor& out, at::IntArrayRef strides, const at::TensorOptions& options) {
  if (strides.empty() ? out.is_contiguous(options.memory_format_opt().value_or(at::MemoryFormat::Contiguous))
                      : out.strides() == strides) {
    return out;
  }
  return strides.empty() ? new_tensor(out.sizes(), options) : new_strided_tensor(out.sizes(), strides, options);
}
// LITERALINCLUDE END: structured-in-own-layout

// LITERALINCLUDE START: structured-in-place
void InPlaceOutput::set(int64_t, at::IntArrayRef sizes, at::IntArrayRef, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self_.dtype(), "Bad in-place call: input tensor dtype ", self_.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self_.device(), "Bad in-place call: input tensor device ", self_.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self_.sizes(), "Bad in-place call: input tensor size ", self_.sizes(),
              " and output tensor size ", sizes, " should match");
}
// LITERALINCLUDE END: structured-in-place

// LITERALINCLUDE START: structured-device
std::optional<c10::Device> first_device(Arguments arguments) {
  const auto counts = [](const at::Tensor& tensor) { return tensor.defined() && !tensor.is_cpu(); };
  for (const Argument& argument : arguments) {
    if (argument.tensor != nullptr && counts(*argument.tensor)) {
      return argument.tensor->device();
    }
    if (argument.list != nullptr) {
      for (const at::Tensor& tensor : *argument.list) {
        if (counts(tensor)) return tensor.device();
      }
    }
  }
  return std::nullopt;
}

void check_one_device(const char* name, std::span<const char* const> names, Arguments arguments) {
  std::optional<c10::Device> device;
  size_t i = 0;  // Arguments after the last tensor need no name.
  const auto check = [&](const auto* argument) {
    if (argument == nullptr) return;
    TORCH_INTERNAL_ASSERT(i < names.size(), name, " has no name for its tensor argument ", i);
    c10::impl::check_and_update_common_device(device, *argument, name, names[i]);
  };
  for (const Argument& argument : arguments) {
    check(argument.tensor);
    check(argument.list);
    check(argument.indices);
    ++i;
  }
}

void check_numbers(const char* name, const at::Tensor& self, Arguments arguments) {
  const auto check = [&](const at::Tensor& tensor, bool is_index) {
    TORCH_CHECK(!tensor.defined() || tensor.is_cpu() || (tensor.dim() == 0 && !is_index),
                "Expected all tensors to be on the same device, but ", name, " is to write into a tensor on ",
                self.device(), " and got another one on ", tensor.device(), ": move that one with .cpu()");
  };
  for (const Argument& argument : arguments) {
    if (argument.tensor != nullptr) check(*argument.tensor, false);
    if (argument.indices != nullptr) {
      for (const std::optional<at::Tensor>& index : *argument.indices) {
        if (index) check(*index, true);
      }
    }
  }
}

OnDevice::OnDevice(std::optional<c10::Device> device) : guard_(unless_current(device)) {}
OnDevice::~OnDevice() = default;
// LITERALINCLUDE END: structured-device

// LITERALINCLUDE START: structured-overlap
void check_written_once(const Outputs& outputs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (const at::Tensor& given = outputs.get(static_cast<int64_t>(i)); given.defined()) {
      at::assert_no_internal_overlap(given);
    }
  }
}

void check_overlap(const Outputs& outputs, size_t count, Arguments arguments) {
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor& output = outputs.get(static_cast<int64_t>(i));
    if (!output.defined()) {
      continue;  // a gradient that was not requested
    }
    for (const Argument& argument : arguments) {
      if (argument.tensor != nullptr && !argument.is_optional) at::assert_no_partial_overlap(output, *argument.tensor);
    }
  }
}

void check_apart(const at::Tensor& self, Arguments arguments) {
  bool is_first = true;
  bool by_mask = false;  // A mask is the first argument; after indices, a bool tensor holds values.
  for (const Argument& argument : arguments) {
    if (argument.tensor != nullptr && argument.tensor->dim() > 0) {
      by_mask = by_mask || (is_first && argument.tensor->scalar_type() == at::kBool);
      by_mask ? at::assert_no_partial_overlap(self, *argument.tensor) : at::assert_no_overlap(self, *argument.tensor);
    }
    is_first = false;
    if (argument.indices != nullptr) {
      for (const std::optional<at::Tensor>& index : *argument.indices) {
        if (index && index->defined()) at::assert_no_overlap(self, *index);
      }
    }
  }
}
// LITERALINCLUDE END: structured-overlap

}  // namespace openreg
