// What a library refuses, raised at the call: it must not fail inside a kernel, where it would take the device with it.
//
// For kernel files only (see launch.h).
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/util/hash.h>

#include <array>
#include <atomic>
#include <cmath>
#include <optional>
#include <string_view>
#include <type_traits>

namespace openreg {

// LITERALINCLUDE START: library-known
// The kinds of arguments that a function of the library has taken before.
class KnownKinds {
 public:
  // What a kind is: dtypes, numbers of dimensions, scalars, flags and names.
  template <class... Arguments>
  static uint64_t kind_of(const Arguments&... arguments) {
    uint64_t kind = 1;
    ((kind = c10::hash_combine(kind, part(arguments))), ...);
    return kind;
  }
  bool has(uint64_t kind) const { return slots_[kind % kSlots].load(std::memory_order_relaxed) == kind; }
  void add(uint64_t kind) { slots_[kind % kSlots].store(kind, std::memory_order_relaxed); }

 private:
  static constexpr size_t kSlots = 61;  // A kind that another one has pushed out is tried once more.

  static uint64_t part(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return 1;
    }
    // Of a tensor without elements the library need not look at the dtype.
    return 2 + (static_cast<uint64_t>(tensor.scalar_type()) * 64 + tensor.dim()) * 2 + (tensor.numel() == 0);
  }
  static uint64_t part(const std::optional<at::Tensor>& tensor) { return tensor ? part(*tensor) : 1; }
  static uint64_t part(const at::ITensorListRef& tensors) {
    uint64_t kind = 1;
    for (const at::Tensor& tensor : tensors) kind = c10::hash_combine(kind, part(tensor));
    return kind;
  }
  // A small number fits every dtype. Any other might not, and then the library refuses it.
  static uint64_t part(const at::Scalar& number) {
    if (number.isComplex()) return 1;
    const double value = number.toDouble();
    return std::abs(value) <= 127 ? 2 : std::hash<double>()(value);
  }
  static uint64_t part(const std::optional<at::Scalar>& number) { return number ? part(*number) : 3; }
  static uint64_t part(bool flag) { return flag; }
  static uint64_t part(at::ScalarType dtype) { return static_cast<uint64_t>(dtype); }
  static uint64_t part(std::string_view text) { return std::hash<std::string_view>()(text); }
  template <class Other>
  static uint64_t part(const Other&) {
    return 0;
  }

  std::array<std::atomic<uint64_t>, kSlots> slots_{};
};
// LITERALINCLUDE END: library-known

// LITERALINCLUDE START: known-sizes
// What a kind leaves out: the sizes of tensors, and numbers that are no scalars.
class KnownSizes {
 public:
  template <class... Arguments>
  static uint64_t kind_of(const Arguments&... arguments) {
    uint64_t kind = 1;
    ((kind = mixed(kind, part(arguments))), ...);
    return kind;
  }

 private:
  // Sizes are small numbers, of which hash_combine alone makes the same kind too easily.
  static uint64_t mixed(uint64_t kind, uint64_t part) { return c10::hash_combine(kind, c10::twang_mix64(part)); }

  static uint64_t part(const at::Tensor& tensor) { return tensor.defined() ? part(tensor.sizes()) : 0; }
  static uint64_t part(const std::optional<at::Tensor>& tensor) { return tensor ? part(*tensor) : 0; }
  static uint64_t part(at::IntArrayRef numbers) {
    uint64_t kind = numbers.size();
    for (const int64_t number : numbers) kind = mixed(kind, static_cast<uint64_t>(number));
    return kind;
  }
  static uint64_t part(at::OptionalIntArrayRef numbers) {  // NOT PROVEN: what has one needs no trial by sizes
    return numbers ? part(*numbers) : 0;  // NOT PROVEN: what has one needs no trial by sizes
  }
  template <class Other>
  static uint64_t part(const Other& other) {
    if constexpr (std::is_arithmetic_v<Other>) {
      return std::hash<Other>()(other);
    } else {
      return 0;  // The kind has it.
    }
  }
};
// LITERALINCLUDE END: known-sizes

}  // namespace openreg
