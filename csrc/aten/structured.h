// What is common to all structured operators: which device they run on, and where their outputs come from.
//
// PyTorch wrote the first half of a structured operator for every device: a class with a function `meta`, which checks
// the arguments and says what each output is to be. It says so by calling functions that are virtual, and here they
// are. The second half, the kernel, is the device's own. generate_structured.py writes the classes that join the two.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/Resize.h>
#include <c10/core/DeviceGuard.h>

#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "aten/factories.h"
#include "runtime/device.h"

namespace openreg {

// LITERALINCLUDE START: structured-outputs
// Where the outputs of a call come from.
class Outputs {
 public:
  // Makes output i what meta says, or refuses to. Without strides the memory format of the options decides.
  virtual void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) = 0;
  virtual const at::Tensor& get(int64_t i) const = 0;

 protected:
  ~Outputs() = default;
};
// LITERALINCLUDE END: structured-outputs

// LITERALINCLUDE START: structured-new-outputs
// Outputs that the call returns: allocated as meta says.
template <size_t N>
class NewOutputs final : public Outputs {
 public:
  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) override {
    tensors_[i] = strides.empty() ? new_tensor(sizes, options) : new_strided_tensor(sizes, strides, options);
  }
  const at::Tensor& get(int64_t i) const override { return tensors_[i]; }

  // A tensor, or a tuple of them.
  auto take() {
    if constexpr (N == 1) {
      return std::move(tensors_[0]);
    } else {
      return std::tuple_cat(std::move(tensors_));
    }
  }

 private:
  std::array<at::Tensor, N> tensors_;
};
// LITERALINCLUDE END: structured-new-outputs

// LITERALINCLUDE START: structured-given-outputs
// Outputs that the caller gave with out=: checked, and resized as PyTorch does it everywhere.
template <size_t N>
class GivenOutputs final : public Outputs {
 public:
  explicit GivenOutputs(std::array<const at::Tensor*, N> tensors) : tensors_(tensors) {}

  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) override {
    const at::Tensor& out = *tensors_[i];
    TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
                out.dtype(), " instead");
    TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
                out.device(), " instead");
    at::assert_no_internal_overlap(out);  // Resized, it may have none, and yet the caller has given another tensor.
    if (!at::native::resize_output(out, sizes)) {
      return;  // It had these sizes, and keeps its strides.
    }
    if (!strides.empty()) {
      out.as_strided_(sizes, strides);
    } else if (const auto format = options.memory_format_opt()) {
      out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    }
  }
  const at::Tensor& get(int64_t i) const override { return *tensors_[i]; }

 private:
  std::array<const at::Tensor*, N> tensors_;
};
// LITERALINCLUDE END: structured-given-outputs

// LITERALINCLUDE START: structured-in-place
// The output of an operator in place: it must be what it is to become already.
class InPlaceOutput final : public Outputs {
 public:
  explicit InPlaceOutput(const at::Tensor& self) : self_(self) {}

  void set(int64_t, at::IntArrayRef sizes, at::IntArrayRef, const at::TensorOptions& options) override {
    TORCH_CHECK(options.dtype() == self_.dtype(), "Bad in-place call: input tensor dtype ", self_.dtype(),
                " and output tensor dtype ", options.dtype(), " should match");
    TORCH_CHECK(options.device() == self_.device(), "Bad in-place call: input tensor device ", self_.device(),
                " and output tensor device ", options.device(), " should match");
    TORCH_CHECK(sizes == self_.sizes(), "Bad in-place call: input tensor size ", self_.sizes(),
                " and output tensor size ", sizes, " should match");
    at::assert_no_internal_overlap(self_);
  }
  const at::Tensor& get(int64_t) const override { return self_; }

 private:
  const at::Tensor& self_;
};
// LITERALINCLUDE END: structured-in-place

// LITERALINCLUDE START: structured-meta
// PyTorch's meta function, with an answer to what it asks.
template <class Meta>
class Shaped final : public Meta {
 public:
  explicit Shaped(Outputs& outputs) : outputs_(outputs) {}

  const at::Tensor& maybe_get_output(int64_t i) override { return outputs_.get(i); }

  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {  // NOT PROVEN: decompositions of matrices call it
    set_output_raw_strided(i, sizes, strides, options);          // NOT PROVEN: decompositions of matrices call it
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    outputs_.set(i, sizes, strides, options);
    // Of an elementwise operator the class is a TensorIterator, which now asks for the output and plans its loop.
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(i, sizes, strides, options);
    }
  }

 private:
  Outputs& outputs_;
};
// LITERALINCLUDE END: structured-meta

// LITERALINCLUDE START: structured-device
// The device of the first tensor that is not the CPU's: of `1 - x` that is the second argument.
class FirstDevice {
 public:
  template <class... Arguments>
  static std::optional<c10::Device> of(const Arguments&... arguments) {
    FirstDevice first;
    (first.see(arguments), ...);
    return first.device_;
  }

 private:
  void see(const at::Tensor& tensor) {
    if (!device_ && tensor.defined() && !tensor.is_cpu()) {
      device_ = tensor.device();
    }
  }
  void see(const std::optional<at::Tensor>& tensor) {
    if (tensor) see(*tensor);
  }
  void see(const at::ITensorListRef& tensors) {
    for (const at::Tensor& tensor : tensors) see(tensor);
  }
  template <class Other>
  void see(const Other&) {}

  std::optional<c10::Device> device_;
};

// Raises what PyTorch raises for tensors on two devices. Elementwise operators check for themselves, in meta, since to
// them a CPU tensor without dimensions is a number.
template <class Op, class... Arguments>
void check_one_device(const Arguments&... arguments) {
  if constexpr (requires { Op::kOnOneDevice; }) {
    std::optional<c10::Device> device;
    const auto check = [&device](const char* name, const auto& argument) {
      if constexpr (requires { c10::impl::check_and_update_common_device(device, argument, "", name); }) {
        c10::impl::check_and_update_common_device(device, argument, Op::kName, name);
      }
    };
    size_t i = 0;
    (check(Op::kOnOneDevice[i++], arguments), ...);
  }
}
// LITERALINCLUDE END: structured-device

// LITERALINCLUDE START: structured-overlap
// Raises what PyTorch raises where an output covers a part of an input. A TensorIterator does it in meta; of the other
// operators some leave it to the kernel, where it is too late, or to the caller, who gets nonsense.
template <class Op, class... Arguments>
void check_overlap(const Outputs& outputs, const Arguments&... arguments) {
  if constexpr (!std::is_base_of_v<at::TensorIteratorBase, typename Op::Meta>) {
    for (size_t i = 0; i < Op::kOutputs; ++i) {
      const at::Tensor& output = outputs.get(static_cast<int64_t>(i));
      if (!output.defined()) {
        continue;  // a gradient that nobody asked for
      }
      const auto check = [&output](const auto& argument) {
        if constexpr (std::is_same_v<decltype(argument), const at::Tensor&>) {
          at::assert_no_partial_overlap(output, argument);
        }
      };
      (check(arguments), ...);
    }
  }
}
// LITERALINCLUDE END: structured-overlap

// LITERALINCLUDE START: structured-call
// meta takes what is optional by reference.
template <class Value>
const Value& for_meta(const Value& value) {
  return value;
}
inline at::OptionalTensorRef for_meta(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}
inline at::OptionalScalarRef for_meta(const std::optional<at::Scalar>& scalar) {
  return scalar ? at::OptionalScalarRef(*scalar) : at::OptionalScalarRef();
}

// The second half: PyTorch's own, where the class has one and ends in a stub of the device, or else our kernel.
template <class Op, size_t... I, class... Arguments>
void compute(Shaped<typename Op::Meta>& op, const Outputs& outputs, std::index_sequence<I...>,
             const Arguments&... arguments) {
  if constexpr (requires { op.impl(for_meta(arguments)..., outputs.get(I)...); }) {
    op.impl(for_meta(arguments)..., outputs.get(I)...);
  } else {
    Op::launch(outputs, arguments...);
  }
}

// One call of one operator, whichever overload it is.
template <class Op, class... Arguments>
void run_structured(Outputs& outputs, const Arguments&... arguments) {
  Shaped<typename Op::Meta> op(outputs);
  op.meta(for_meta(arguments)...);
  check_overlap<Op>(outputs, arguments...);
  compute<Op>(op, outputs, std::make_index_sequence<Op::kOutputs>(), arguments...);
}

// The overload that returns new tensors.
template <class Op, class... Arguments>
auto functional(const Arguments&... arguments) {
  check_one_device<Op>(arguments...);
  const c10::OptionalDeviceGuard guard(unless_current(FirstDevice::of(arguments...)));
  NewOutputs<Op::kOutputs> outputs;
  run_structured<Op>(outputs, arguments...);
  return outputs.take();
}

// The overload with out=.
template <class Op, class... Arguments>
void out_variant(std::array<const at::Tensor*, Op::kOutputs> tensors, const Arguments&... arguments) {
  check_one_device<Op>(arguments...);
  const c10::OptionalDeviceGuard guard(unless_current(tensors[0]->device()));
  GivenOutputs<Op::kOutputs> outputs(tensors);
  run_structured<Op>(outputs, arguments...);
}

// An operator that exists in place alone, and never changes the sizes of its argument: without a meta function.
template <class Op, class... Arguments>
void in_place_only(const at::Tensor& self, const Arguments&... arguments) {
  check_one_device<Op>(self, arguments...);
  const c10::OptionalDeviceGuard guard(unless_current(self.device()));
  InPlaceOutput outputs(self);
  Op::launch(outputs, self, arguments...);
}

// The overload in place: its first argument is its output.
template <class Op, class... Arguments>
void in_place(const at::Tensor& self, const Arguments&... arguments) {
  check_one_device<Op>(self, arguments...);
  const c10::OptionalDeviceGuard guard(unless_current(self.device()));
  InPlaceOutput outputs(self);
  run_structured<Op>(outputs, self, arguments...);
}
// LITERALINCLUDE END: structured-call

}  // namespace openreg
