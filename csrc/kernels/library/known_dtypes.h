// Remembers the dtypes that a library function accepts: a call with these need not wait for errors.
//
// A vendor's library documents this table. This one does not, so it is learned: a call with new dtypes waits, and when
// the library has accepted it, the dtypes are known. For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace openreg {

// LITERALINCLUDE START: known-dtypes
// The dtypes of one call, as a number: those of its tensors and scalars, and dtypes that are arguments. It is a hash of
// 64 bits, since a call with lists has any number of them. Strings, such as the name of an approximation, belong to it.
class Dtypes {
 public:
  template <class... Arguments>
  explicit Dtypes(const Arguments&... arguments) {
    (add(arguments), ...);
  }

  void add(at::ScalarType dtype) { add_number(static_cast<uint64_t>(dtype)); }
  // The library may not check the dtype of a tensor without elements.
  void add(const at::TensorBase& tensor) {
    add(tensor.defined() && tensor.numel() != 0 ? tensor.scalar_type() : at::ScalarType::Undefined);
  }
  void add(const at::Tensor& tensor) { add(static_cast<const at::TensorBase&>(tensor)); }
  void add(const at::ITensorListRef& tensors) {
    for (const at::Tensor& tensor : tensors) add(tensor);
  }
  void add(const at::Scalar& number) {
    add(number.type());
    has_large_number_ = has_large_number_ || is_large(number);
  }
  // The library accepts only some values of a string option.
  void add(std::string_view name) { add_number(std::hash<std::string_view>()(name)); }
  template <class Value>
  void add(const std::optional<Value>& value) {
    value ? add(*value) : add(at::ScalarType::Undefined);
  }
  template <class Other>
  void add(const Other&) {}

  uint64_t hash() const { return hash_; }
  // Whether a number does not fit every dtype, such as 300. The library must check those in each call.
  bool has_large_number() const { return has_large_number_; }

 private:
  // An odd factor loses no bit, and a large one moves a small number to all of them.
  void add_number(uint64_t number) { hash_ = hash_ * 0x9e3779b97f4a7c15 + number + 1; }

  static bool is_large(const at::Scalar& number);

  uint64_t hash_ = 1;
  bool has_large_number_ = false;
};

// The dtypes that one function has accepted.
class KnownDtypes {
 public:
  bool has(const Dtypes& dtypes) const {
    return !dtypes.has_large_number() && slot(dtypes).load(std::memory_order_relaxed) == dtypes.hash();
  }
  void add(const Dtypes& dtypes) { slot(dtypes).store(dtypes.hash(), std::memory_order_relaxed); }

 private:
  static constexpr size_t kSlots = 61;  // A call with dtypes that others have evicted waits once more.

  std::atomic<uint64_t>& slot(const Dtypes& dtypes) { return slots_[dtypes.hash() % kSlots]; }
  const std::atomic<uint64_t>& slot(const Dtypes& dtypes) const { return slots_[dtypes.hash() % kSlots]; }

  std::array<std::atomic<uint64_t>, kSlots> slots_{};
};
// LITERALINCLUDE END: known-dtypes

}  // namespace openreg
