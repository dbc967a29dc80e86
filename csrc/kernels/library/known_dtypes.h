// Remembers the dtypes that a library function accepts: a call with these need not wait for errors.
//
// A vendor's library documents this table. This one does not, so it is learned: a call with new dtypes waits, and when
// the library has accepted it, the dtypes are known. For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
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

  void add(at::ScalarType dtype) {
    add_hashed(static_cast<uint64_t>(dtype));
    see(dtype);
  }
  // The library may copy a tensor of one element or none without a look at its dtype: what it accepts of these says
  // nothing of others. It may check numbers.
  void add(const at::TensorBase& tensor) {
    add(tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined);
    if (tensor.defined()) add_kind(tensor.dim() == 0 ? 1 : 2 + std::min<int64_t>(tensor.numel(), 2));
  }
  void add_kind(uint64_t kind) { add_hashed(kind); }
  void add(at::IntArrayRef numbers) { add_hashed(numbers.empty() ? 1 : 0); }  // no dimension: often another algorithm
  void add(const at::Tensor& tensor) { add(static_cast<const at::TensorBase&>(tensor)); }
  void add(const at::ITensorListRef& tensors) {
    for (const at::Tensor& tensor : tensors) add(tensor);
  }
  void add(const at::Scalar& number) {
    add_hashed(static_cast<uint64_t>(number.type()));
    add_magnitude(number);
  }
  // The library accepts only some values of a string option.
  void add(std::string_view name) { add_hashed(std::hash<std::string_view>()(name)); }
  template <class Value>
  void add(const std::optional<Value>& value) {
    value ? add(*value) : add(at::ScalarType::Undefined);
  }
  template <class Other>
  void add(const Other&) {}

  uint64_t hash() const { return hash_; }
  // Whether one of the dtypes may not hold one of the numbers, as int8 does not hold 300. The library must check those
  // in each call.
  bool has_large_number() const { return (largest_ > kHeldByAll || has_infinity_) && !all_hold(); }

 private:
  // An odd factor loses no bit, and a large one moves a small number to all of them.
  void add_hashed(uint64_t number) { hash_ = hash_ * 0x9e3779b97f4a7c15 + number + 1; }

  void see(at::ScalarType dtype) { seen_ |= uint64_t{1} << static_cast<unsigned>(dtype); }
  void add_magnitude(const at::Scalar& number);
  bool all_hold() const;
  static double largest(at::ScalarType dtype);

  static constexpr double kHeldByAll = 127;

  uint64_t hash_ = 1;
  uint64_t seen_ = 0;  // a bit for each dtype
  double largest_ = 0;
  bool has_infinity_ = false;  // or NaN
};
static_assert(static_cast<int>(at::ScalarType::NumOptions) <= 64, "Dtypes has 64 bits");

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
