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
// The dtypes of one call, packed into a number: those of its tensors and scalars, and dtypes that are arguments.
// Strings, such as the name of an approximation, are packed as a hash.
class Dtypes {
 public:
  template <class... Arguments>
  explicit Dtypes(const Arguments&... arguments) {
    (add(arguments), ...);
  }

  void add(at::ScalarType dtype) { packed_ = packed_ << kBits | (static_cast<uint64_t>(dtype) + 1); }
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
  void add(std::string_view name) { packed_ = packed_ << 3 * kBits | (std::hash<std::string_view>()(name) & 0x3ffff); }
  template <class Value>
  void add(const std::optional<Value>& value) {
    value ? add(*value) : add(at::ScalarType::Undefined);
  }
  template <class Other>
  void add(const Other&) {}

  uint64_t packed() const { return packed_; }
  // Whether a number does not fit every dtype, such as 300. The library must check those in each call.
  bool has_large_number() const { return has_large_number_; }

 private:
  static constexpr int kBits = 6;

  static bool is_large(const at::Scalar& number);

  uint64_t packed_ = 1;
  bool has_large_number_ = false;
};
static_assert(static_cast<int>(at::ScalarType::NumOptions) < 63);

// The dtypes that one function has accepted.
class KnownDtypes {
 public:
  bool has(const Dtypes& dtypes) const {
    return !dtypes.has_large_number() && slot(dtypes).load(std::memory_order_relaxed) == dtypes.packed();
  }
  void add(const Dtypes& dtypes) { slot(dtypes).store(dtypes.packed(), std::memory_order_relaxed); }

 private:
  static constexpr size_t kSlots = 61;  // A call with dtypes that others have evicted waits once more.

  std::atomic<uint64_t>& slot(const Dtypes& dtypes) { return slots_[dtypes.packed() % kSlots]; }
  const std::atomic<uint64_t>& slot(const Dtypes& dtypes) const { return slots_[dtypes.packed() % kSlots]; }

  std::array<std::atomic<uint64_t>, kSlots> slots_{};
};
// LITERALINCLUDE END: known-dtypes

}  // namespace openreg
