// Which dtypes a function of the library is known to take: a call with those need not be waited for.
//
// A vendor's library has this table in its documentation. This one has none, so it is learned: a call with new dtypes
// is waited for, and when the library has taken it, the dtypes are known. For kernel files only: see Note [Host code as
// kernels].
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
// The dtypes of one call, side by side in a number: of its tensors, of its scalars, and dtypes that are arguments.
// Beside them stand names, such as that of an approximation.
class Dtypes {
 public:
  template <class... Arguments>
  explicit Dtypes(const Arguments&... arguments) {
    (add(arguments), ...);
  }

  void add(at::ScalarType dtype) { packed_ = packed_ << kBits | (static_cast<uint64_t>(dtype) + 1); }
  // Of a tensor without elements the library need not look at the dtype.
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
  // Of the names that an option may have the library knows some.
  void add(std::string_view name) { packed_ = packed_ << 3 * kBits | (std::hash<std::string_view>()(name) & 0x3ffff); }
  template <class Value>
  void add(const std::optional<Value>& value) {
    value ? add(*value) : add(at::ScalarType::Undefined);
  }
  template <class Other>
  void add(const Other&) {}

  uint64_t packed() const { return packed_; }
  // Whether there is a number that some dtype has not, 300 for one. Of these the library must be asked each time.
  bool has_large_number() const { return has_large_number_; }

 private:
  static constexpr int kBits = 6;

  static bool is_large(const at::Scalar& number);

  uint64_t packed_ = 1;
  bool has_large_number_ = false;
};
static_assert(static_cast<int>(at::ScalarType::NumOptions) < 63);

// Those that one function has taken.
class KnownDtypes {
 public:
  bool has(const Dtypes& dtypes) const {
    return !dtypes.has_large_number() && slot(dtypes).load(std::memory_order_relaxed) == dtypes.packed();
  }
  void add(const Dtypes& dtypes) { slot(dtypes).store(dtypes.packed(), std::memory_order_relaxed); }

 private:
  static constexpr size_t kSlots = 61;  // Dtypes that others have pushed out are waited for once more.

  std::atomic<uint64_t>& slot(const Dtypes& dtypes) { return slots_[dtypes.packed() % kSlots]; }
  const std::atomic<uint64_t>& slot(const Dtypes& dtypes) const { return slots_[dtypes.packed() % kSlots]; }

  std::array<std::atomic<uint64_t>, kSlots> slots_{};
};
// LITERALINCLUDE END: known-dtypes

}  // namespace openreg
