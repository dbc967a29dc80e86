// What is common to all structured operators: which device they run on, and where their outputs come from.
//
// PyTorch wrote the first half of a structured operator for every device: a class with a function `meta`, which checks
// the arguments and says what each output is to be. It says so by calling functions that are virtual, and here they
// are. The second half, the kernel, is the device's own. generate_structured.py writes the classes that join the two.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/macros/Macros.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "aten/factories.h"
#include "runtime/export.h"

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

// LITERALINCLUDE START: structured-old-outputs
// Outputs that the caller gave with out=: checked, and resized as PyTorch does it everywhere.
OPENREG_EXPORT void set_given(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                              const at::TensorOptions& options);

template <size_t N>
class GivenOutputs final : public Outputs {
 public:
  explicit GivenOutputs(std::array<const at::Tensor*, N> tensors) : tensors_(tensors) {}

  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) override {
    set_given(*tensors_[i], sizes, strides, options);
  }
  const at::Tensor& get(int64_t i) const override { return *tensors_[i]; }

 private:
  std::array<const at::Tensor*, N> tensors_;
};

// The output of an operator in place: it must be what it is to become already.
class OPENREG_EXPORT InPlaceOutput final : public Outputs {
 public:
  explicit InPlaceOutput(const at::Tensor& self) : self_(self) {}

  void set(int64_t, at::IntArrayRef sizes, at::IntArrayRef, const at::TensorOptions& options) override;
  const at::Tensor& get(int64_t) const override { return self_; }

 private:
  const at::Tensor& self_;
};
// LITERALINCLUDE END: structured-old-outputs

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

// LITERALINCLUDE START: structured-argument
// An argument as the checks see it that are the same for all operators, and compiled once: the tensors in it, if any.
struct Argument {
  Argument(const at::Tensor& given) : tensor(&given) {}
  Argument(const std::optional<at::Tensor>& given) : tensor(given ? &*given : nullptr), is_optional(true) {}
  Argument(const at::ITensorListRef& given) : list(&given) {}
  Argument(const c10::List<std::optional<at::Tensor>>& given) : indices(&given) {}
  template <class Other>
  Argument(const Other&) {}

  const at::Tensor* tensor = nullptr;
  bool is_optional = false;
  const at::ITensorListRef* list = nullptr;
  const c10::List<std::optional<at::Tensor>>* indices = nullptr;  // may be on the CPU
};
using Arguments = std::initializer_list<Argument>;

// The device of the first tensor that is not the CPU's: of `1 - x` that is the second argument.
OPENREG_EXPORT std::optional<c10::Device> first_device(Arguments arguments);

// Raises what PyTorch raises for tensors on two devices.
OPENREG_EXPORT void check_one_device(const char* name, std::span<const char* const> names, Arguments arguments);

// What a tensor of the host may take from the device is a number, as a tensor of the device takes numbers of the host.
OPENREG_EXPORT void check_numbers(const char* name, const at::Tensor& self, Arguments arguments);

// Raises what PyTorch raises where two elements of a given output have one address. Asked before meta, since an output
// that is resized has no such elements any more, and yet the caller has given another tensor.
OPENREG_EXPORT void check_written_once(const Outputs& outputs, size_t count);

// Raises what PyTorch raises where an output covers a part of an input.
OPENREG_EXPORT void check_overlap(const Outputs& outputs, size_t count, Arguments arguments);

// The same for an operator that changes one tensor, and reads others after it has begun to write. A number may stand in
// the tensor. A mask may be the tensor itself, and so may what it selects, since of that no element is read too late.
OPENREG_EXPORT void check_apart(const at::Tensor& self, Arguments arguments);

// Makes a device the current one for as long as it lives.
class OPENREG_EXPORT OnDevice {
 public:
  explicit OnDevice(std::optional<c10::Device> device);
  ~OnDevice();

 private:
  c10::OptionalDeviceGuard guard_;
};
// LITERALINCLUDE END: structured-argument

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
template <class Op, size_t... I, class... Given>
void compute(Shaped<typename Op::Meta>& op, const Outputs& outputs, std::index_sequence<I...>,
             const Given&... arguments) {
  if constexpr (requires { op.impl(for_meta(arguments)..., outputs.get(I)...); }) {
    op.impl(for_meta(arguments)..., outputs.get(I)...);
  } else {
    Op::enqueue(outputs, arguments...);
  }
}

// One call of one operator, whichever overload it is: not inlined, so that the overloads share it.
template <class Op, class... Given>
C10_NOINLINE void run_structured(Outputs& outputs, const Given&... arguments) {
  Shaped<typename Op::Meta> op(outputs);
  // A TensorIterator checks overlap in meta; of the other operators some leave it to the kernel, where it is too late,
  // or to the caller, who gets nonsense. A few kernels make copies.
  constexpr bool kIsIterator = std::is_base_of_v<at::TensorIteratorBase, typename Op::Meta>;
  if constexpr (!kIsIterator) {
    check_written_once(outputs, Op::kOutputs);
  }
  op.meta(for_meta(arguments)...);
  if constexpr (!kIsIterator && !requires { Op::kCopiesOverlap; }) {
    check_overlap(outputs, Op::kOutputs, {arguments...});
  }
  compute<Op>(op, outputs, std::make_index_sequence<Op::kOutputs>(), arguments...);
}
// LITERALINCLUDE END: structured-call

// LITERALINCLUDE START: structured-overloads
// Elementwise operators check for themselves, in meta, since to them a CPU tensor without dimensions is a number.
template <class Op, class... Given>
void check_one_device(const Given&... arguments) {
  if constexpr (requires { Op::kOnOneDevice; }) {
    check_one_device(Op::kName, Op::kOnOneDevice, {arguments...});
  }
}

// The overload that returns new tensors.
template <class Op, class... Given>
auto functional(const Given&... arguments) {
  check_one_device<Op>(arguments...);
  const OnDevice current(first_device({arguments...}));
  NewOutputs<Op::kOutputs> outputs;
  run_structured<Op>(outputs, arguments...);
  return outputs.take();
}

// The overload with out=.
template <class Op, class... Given>
void out_variant(std::array<const at::Tensor*, Op::kOutputs> tensors, const Given&... arguments) {
  check_one_device<Op>(arguments...);
  const OnDevice current(tensors[0]->device());
  GivenOutputs<Op::kOutputs> outputs(tensors);
  run_structured<Op>(outputs, arguments...);
}

template <class Value>
const Value& on_host(const Value& value) {
  return value;
}
inline at::Tensor on_host(const at::Tensor& tensor) { return tensor.cpu(); }

// An operator that exists in place alone, and never changes the sizes of its argument: without a meta function. It
// comes here for one argument of the device, and that need not be the one that it changes.
template <class Op, class... Given>
void in_place_only(const at::Tensor& self, const Given&... arguments) {
  check_one_device<Op>(self, arguments...);
  if (self.is_cpu()) {
    check_numbers(Op::kName, self, {arguments...});
    at::Tensor changed = self;
    return Op::compute(changed, on_host(arguments)...);
  }
  const OnDevice current(self.device());
  check_apart(self, {arguments...});
  InPlaceOutput outputs(self);
  Op::enqueue(outputs, self, arguments...);
}

// The overload in place: its first argument is its output.
template <class Op, class... Given>
void in_place(const at::Tensor& self, const Given&... arguments) {
  check_one_device<Op>(self, arguments...);
  const OnDevice current(self.device());
  InPlaceOutput outputs(self);
  run_structured<Op>(outputs, self, arguments...);
}
// LITERALINCLUDE END: structured-overloads

}  // namespace openreg
