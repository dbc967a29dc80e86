// Stubs whose loop is a function of a library: here of PyTorch's own for the CPU, over the device's bytes.
//
// A stub hands over a TensorIterator: what is left of a call when shapes, dtypes and memory are settled. A vendor's
// loops take the same place, and generate_structured.py registers them in the same way. For kernel files only (see
// launch.h).
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "aten/known_kinds.h"
#include "aten/launch.h"
#include "aten/library_scope.h"
#include "aten/rows.h"

namespace openreg {

// LITERALINCLUDE START: host-loop-iterator
// The iterator of a call as the host's loops want it: with the host's addresses, and one dtype for all operands.
//
// It holds no tensor of the caller (see launch.h): a loop that asks for one of the device's gets an empty one.
class HostIterator final : public at::TensorIteratorBase {
 public:
  explicit HostIterator(const at::TensorIteratorBase& iter) : TensorIteratorBase(iter) {
    for (int i = 0; i < iter.ntensors(); ++i) {
      at::OperandInfo& operand = operands_[i];
      if (iter.device(i).is_cpu()) {
        keep_number(operand);
      } else {
        operand.data = host_alias(operand.data, operand_bytes(iter, i));
        operand.tensor(Owned::borrowed(empty(operand.current_dtype)));
        operand.device = c10::kCPU;
      }
    }
    common_device_ = c10::kCPU;
  }

  // Calls loop(iterator). To be called inside a kernel. For the CPU PyTorch converts operands of another dtype while
  // it builds the iterator; for other devices it leaves that to the kernel.
  template <class Loop>
  void run(const Loop& loop) {
    if (std::ranges::none_of(operands_, [this](const at::OperandInfo& operand) { return to_convert(operand); })) {
      loop(*this);
      return;
    }
    const LibraryScope scope;
    c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 4> converted;  // what was there, and what stands for it
    c10::SmallVector<size_t, 2> outputs;
    for (at::OperandInfo& operand : operands_) {
      if (!to_convert(operand)) {
        continue;
      }
      const at::Tensor there = view(operand);
      if (operand.is_output) {
        outputs.push_back(converted.size());
        converted.emplace_back(there, at::empty_like(there, there.options().dtype(common_dtype_)));
      } else {
        converted.emplace_back(there, there.to(common_dtype_));
      }
      replace(operand, there, converted.back().second);
    }
    loop(*this);
    for (const size_t i : outputs) {
      converted[i].first.copy_(converted[i].second);
    }
  }

  // The same on the host, for one element that is zero: raises what the loop raises for these dtypes.
  template <class Loop>
  void rehearse(const Loop& loop) const {
    constexpr size_t kOperands = 8;
    alignas(std::max_align_t) std::array<std::array<std::byte, 16>, kOperands> zeros{};
    HostIterator one(*this, 1);
    TORCH_INTERNAL_ASSERT(one.operands_.size() <= kOperands);
    for (size_t i = 0; i < one.operands_.size(); ++i) {
      if (!is_number(one.operands_[i])) one.operands_[i].data = zeros.at(i).data();
      one.operands_[i].stride_bytes.assign(1, 0);
    }
    one.run(loop);
  }

 private:
  using Owned = c10::MaybeOwned<at::TensorBase>;

  HostIterator(const HostIterator& other, int64_t elements) : TensorIteratorBase(other) {
    shape_.assign(1, elements);
    view_offsets_.assign(1, 0);
  }

  const at::Tensor& maybe_get_output(int64_t i) override {  // NOT PROVEN: asked while an iterator is built
    return operands_[i].tensor();                           // NOT PROVEN: asked while an iterator is built
  }

  // A loop asks such a tensor for its dtype. Never destroyed: kernels may run until the process ends.
  static const at::TensorBase& empty(at::ScalarType dtype) {
    static std::array<std::atomic<const at::TensorBase*>, static_cast<size_t>(at::ScalarType::NumOptions)> tensors{};
    std::atomic<const at::TensorBase*>& tensor = tensors.at(static_cast<size_t>(dtype));
    if (tensor.load() == nullptr) {
      auto fresh = std::make_unique<at::TensorBase>(at::detail::empty_cpu({0}, c10::TensorOptions(dtype)));
      const at::TensorBase* none = nullptr;
      if (tensor.compare_exchange_strong(none, fresh.get())) static_cast<void>(fresh.release());
    }
    return *tensor.load();
  }
  static bool is_number(const at::OperandInfo& operand) { return operand.tensor_base().numel() == 1; }

  // A number of the host, as in x + 1: by value, since the caller may change it.
  static void keep_number(at::OperandInfo& operand) {
    at::TensorBase number = at::detail::empty_cpu({}, c10::TensorOptions(operand.current_dtype));
    std::memcpy(number.mutable_data_ptr(), operand.data, number.itemsize());
    operand.data = number.mutable_data_ptr();
    operand.tensor(Owned::owned(std::move(number)));
  }

  // Comparisons write bool, whatever they compare.
  bool to_convert(const at::OperandInfo& operand) const {
    return common_dtype_ != at::ScalarType::Undefined && operand.current_dtype != common_dtype_ &&
           !(operand.is_output && operand.current_dtype == at::kBool);
  }

  // What was broadcast counts once.
  at::Tensor view(const at::OperandInfo& operand) const {
    const auto itemsize = static_cast<int64_t>(c10::elementSize(operand.current_dtype));
    at::DimVector sizes;
    at::DimVector strides;
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      sizes.push_back(operand.stride_bytes[dim] == 0 ? 1 : shape_[dim]);
      strides.push_back(operand.stride_bytes[dim] / itemsize);
    }
    return at::from_blob(operand.data, sizes, strides, c10::TensorOptions(operand.current_dtype));
  }

  void replace(at::OperandInfo& operand, const at::Tensor& there, const at::Tensor& converted) const {
    operand.data = converted.data_ptr();
    operand.current_dtype = common_dtype_;
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      if (operand.stride_bytes[dim] != 0) {
        operand.stride_bytes[dim] = converted.stride(static_cast<int64_t>(dim)) * converted.element_size();
      }
    }
    if (!is_number(operand)) operand.tensor(Owned::owned(at::TensorBase(there)));
    // Of what is one number some loops look at the original, which may be more exact.
    operand.exchange_tensor(Owned::owned(at::TensorBase(converted)));
  }
};
// LITERALINCLUDE END: host-loop-iterator

// LITERALINCLUDE START: host-loop-launch
// The closure of such a kernel.
template <class Loop>
struct HostLoopCall {
  HostIterator host;
  Loop loop;

  HostLoopCall(const at::TensorIteratorBase& iter, const Loop& called) : host(iter), loop(called) {}
  void operator()() { host.run(loop); }
};

// Queues loop(iterator) over the bytes of the device. The first call of each kind is rehearsed on the host; where the
// loop refuses integers by their values (kWaits), the call waits for what it says.
template <bool kWaits, class Loop>
void launch_host_loop(const char* name, const at::TensorIteratorBase& iter, KnownKinds& known, uint64_t kind,
                      const Loop& loop) {
  if (iter.numel() == 0) {
    return;
  }
  size_t bytes = 0;
  for (int i = 0; i < iter.ntensors(); ++i) {
    bytes += operand_bytes(iter, i);
    kind = c10::hash_combine(kind, static_cast<uint64_t>(iter.dtype(i)));
  }
  if (kWaits && at::isIntegralType(iter.common_dtype(), true)) {
    launch_and_wait(name, iter.device(0).index(), bytes, HostLoopCall<Loop>(iter, loop));
    return;
  }
  if (!known.has(kind)) {
    HostIterator(iter).rehearse(loop);
    known.add(kind);
  }
  launch(name, iter.device(0).index(), bytes, HostLoopCall<Loop>(iter, loop));
}
// LITERALINCLUDE END: host-loop-launch

// LITERALINCLUDE START: host-loop-stub
// A name as a parameter of a template.
template <size_t N>
struct Name {
  consteval Name(const char (&literal)[N]) { std::copy_n(literal, N, text); }
  char text[N];
};

// The loop that the CPU has for a stub, as a kernel for the same stub.
template <Name kName, auto& kStub, bool kWaits,
          class Function = typename std::remove_reference_t<decltype(kStub)>::FnPtr>
struct LibraryLoop;

template <Name kName, auto& kStub, bool kWaits, class Iterator, class... Numbers>
struct LibraryLoop<kName, kStub, kWaits, void (*)(Iterator&, Numbers...)> {
  static void kernel(Iterator& iter, Numbers... numbers) {
    static KnownKinds known;
    launch_host_loop<kWaits>(kName.text, iter, known, KnownKinds::kind_of(numbers...),
                             [kept = std::tuple<std::decay_t<Numbers>...>(numbers...)](HostIterator& host) {
                               std::apply([&host](const auto&... number) { call(host, number...); }, kept);
                             });
  }

 private:
  static void call(HostIterator& host, const std::decay_t<Numbers>&... numbers) {
    if constexpr (std::is_same_v<Iterator, at::TensorIterator>) {
      at::TensorIterator final_class(host);
      kStub(c10::kCPU, final_class, numbers...);
    } else {
      kStub(c10::kCPU, host, numbers...);
    }
  }
};
// LITERALINCLUDE END: host-loop-stub

}  // namespace openreg
