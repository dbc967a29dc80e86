// What all structured operators share: which device they run on, and where their outputs come from.
//
// PyTorch wrote the first half of a structured operator for every device: a class with a function `meta`, which checks
// the arguments and describes each output by calling virtual functions. These are implemented here. The second half,
// the kernel, is the device's own. generate_structured.py writes the classes that join the two.
#pragma once

#include <ATen/MemoryOverlap.h>
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
  // Gives output i the properties from meta, or throws. Without strides the memory format of the options decides.
  virtual void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) = 0;
  virtual const at::Tensor& get(int64_t i) const = 0;

 protected:
  ~Outputs() = default;
};
// LITERALINCLUDE END: structured-outputs

// LITERALINCLUDE START: structured-new-outputs
// Outputs that the call returns, allocated as meta specifies.
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
// Outputs that the caller passed with out=: checked, and resized as everywhere in PyTorch.
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

// The output of an in-place operator: it must already have the properties from meta.
class OPENREG_EXPORT InPlaceOutput final : public Outputs {
 public:
  explicit InPlaceOutput(const at::Tensor& self) : self_(self) {}

  void set(int64_t, at::IntArrayRef sizes, at::IntArrayRef, const at::TensorOptions& options) override;
  const at::Tensor& get(int64_t) const override { return self_; }

 private:
  const at::Tensor& self_;
};
// LITERALINCLUDE END: structured-old-outputs

// LITERALINCLUDE START: structured-own-layout
// Outputs that the caller passed, for a kernel that knows one layout, that of a new output. A given output of another
// layout gets its values afterwards.
OPENREG_EXPORT at::Tensor in_own_layout(const at::Tensor& out, at::IntArrayRef strides,
                                        const at::TensorOptions& options);

template <size_t N>
class LaidOutOutputs final : public Outputs {
 public:
  explicit LaidOutOutputs(std::array<const at::Tensor*, N> tensors) : given_(tensors) {}

  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) override {
    given_.set(i, sizes, strides, options);
    computed_[i] = in_own_layout(given_.get(i), strides, options);
  }
  const at::Tensor& get(int64_t i) const override { return computed_[i].defined() ? computed_[i] : given_.get(i); }

  void write_back() const {
    for (size_t i = 0; i < N; ++i) {
      if (!computed_[i].is_same(given_.get(i))) given_.get(i).copy_(computed_[i]);
    }
  }

 private:
  GivenOutputs<N> given_;
  std::array<at::Tensor, N> computed_;
};
// LITERALINCLUDE END: structured-own-layout

// LITERALINCLUDE START: structured-meta
// PyTorch's meta class, with its virtual functions implemented.
template <class Meta>
class Shaped final : public Meta {
 public:
  explicit Shaped(Outputs& outputs) : outputs_(outputs) {}

  const at::Tensor& maybe_get_output(int64_t i) override { return outputs_.get(i); }

  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {  // NOT PROVEN: matrix decompositions call it
    set_output_raw_strided(i, sizes, strides, options);          // NOT PROVEN: matrix decompositions call it
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    outputs_.set(i, sizes, strides, options);
    // The class of an elementwise operator is a TensorIterator, which now fetches the output and plans its loop.
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(i, sizes, strides, options);
    }
  }

 private:
  Outputs& outputs_;
};
// LITERALINCLUDE END: structured-meta

// LITERALINCLUDE START: structured-argument
// The tensors in an argument, if any: type-erased, for checks that all operators share and that are compiled once.
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

// The device of the first tensor that is not on the CPU: in `1 - x`, that of the second argument.
OPENREG_EXPORT std::optional<c10::Device> first_device(Arguments arguments);

// Raises PyTorch's error for tensors on two devices.
OPENREG_EXPORT void check_one_device(const char* name, std::span<const char* const> names, Arguments arguments);

// Raises if a CPU tensor is to be written with anything from the device but numbers (tensors without dimensions).
OPENREG_EXPORT void check_numbers(const char* name, const at::Tensor& self, Arguments arguments);

// Raises PyTorch's error if two elements of a given output share an address. Called before meta: a resized output no
// longer has such elements, although the caller passed it with them.
OPENREG_EXPORT void check_written_once(const Outputs& outputs, size_t count);

// Raises PyTorch's error if an output partially overlaps an input.
OPENREG_EXPORT void check_overlap(const Outputs& outputs, size_t count, Arguments arguments);

// The same for an operator that writes one tensor while it still reads others. A number may be an element of the
// tensor. A mask may be the tensor itself, and so may the values for it: no element is read after it is overwritten.
OPENREG_EXPORT void check_apart(const at::Tensor& self, Arguments arguments);

// Makes a device the current one for the lifetime of the object.
class OPENREG_EXPORT OnDevice {
 public:
  explicit OnDevice(std::optional<c10::Device> device);
  ~OnDevice();

 private:
  c10::OptionalDeviceGuard guard_;
};
// LITERALINCLUDE END: structured-argument

// LITERALINCLUDE START: structured-call
// meta takes optional arguments as reference types.
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

// The second half: PyTorch's own impl, if the class has one (it calls a stub of the device), or else our kernel.
template <class Op, size_t... I, class... Given>
void compute(Shaped<typename Op::Meta>& op, const Outputs& outputs, std::index_sequence<I...>,
             const Given&... arguments) {
  if constexpr (requires { op.impl(for_meta(arguments)..., outputs.get(I)...); }) {
    op.impl(for_meta(arguments)..., outputs.get(I)...);
  } else {
    Op::enqueue(outputs, arguments...);
  }
}

// Runs one operator, whichever overload was called: not inlined, so that the overloads share it.
template <class Op, class... Given>
C10_NOINLINE void run_structured(Outputs& outputs, const Given&... arguments) {
  Shaped<typename Op::Meta> op(outputs);
  // A TensorIterator checks overlap in meta. Some other operators leave it to the kernel, which is too late, or to the
  // caller, who would get wrong results. A few kernels make copies.
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
// Elementwise operators check devices in meta, since they accept a CPU tensor without dimensions as a number.
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

// PyTorch's meta function of baddbmm already writes the addend into the output, which may be a factor.
template <class Op, class Value>
decltype(auto) kept_from(const at::Tensor& output, const Value& value) {
  if constexpr (requires { Op::kMetaWrites; } && std::is_same_v<Value, at::Tensor>) {
    return at::get_overlap_status(output, value) == at::MemOverlapStatus::No ? value : value.clone();
  } else {
    return (value);
  }
}

// The overload with out=.
template <class Op, class... Given>
void out_variant(std::array<const at::Tensor*, Op::kOutputs> tensors, const Given&... arguments) {
  check_one_device<Op>(arguments...);
  const OnDevice current(tensors[0]->device());
  if constexpr (requires { Op::kOwnLayout; }) {
    LaidOutOutputs<Op::kOutputs> outputs(tensors);
    run_structured<Op>(outputs, arguments...);
    outputs.write_back();
  } else {
    GivenOutputs<Op::kOutputs> outputs(tensors);
    run_structured<Op>(outputs, kept_from<Op>(*tensors[0], arguments)...);
  }
}

template <class Value>
const Value& on_host(const Value& value) {
  return value;
}
inline at::Tensor on_host(const at::Tensor& tensor) { return tensor.cpu(); }

// An operator that exists only in place and never resizes its argument, so it has no meta function. Any argument on the
// device dispatches here, so the one that it changes may be on the CPU.
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

// The in-place overload: its first argument is its output.
template <class Op, class... Given>
void in_place(const at::Tensor& self, const Given&... arguments) {
  check_one_device<Op>(self, arguments...);
  const OnDevice current(self.device());
  InPlaceOutput outputs(self);
  run_structured<Op>(outputs, self, arguments...);
}
// LITERALINCLUDE END: structured-overloads

}  // namespace openreg
