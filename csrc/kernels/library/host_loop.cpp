// Converts the iterator of a call for a loop of the library (host_loop.h): the part that does not depend on the stub.
// The constructor is called on the thread that queues the kernel, `run` inside the kernel.
#include "kernels/library/host_loop.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "kernels/library/library_scope.h"
#include "kernels/loops/rows.h"

namespace openreg {

// LITERALINCLUDE START: host-loop-empty
const at::TensorBase& empty_tensor(at::ScalarType dtype) {
  static std::array<std::atomic<const at::TensorBase*>, static_cast<size_t>(at::ScalarType::NumOptions)> tensors{};
  std::atomic<const at::TensorBase*>& tensor = tensors.at(static_cast<size_t>(dtype));
  if (tensor.load() == nullptr) {
    auto fresh = std::make_unique<at::TensorBase>(at::detail::empty_cpu({0}, c10::TensorOptions(dtype)));
    const at::TensorBase* none = nullptr;
    if (tensor.compare_exchange_strong(none, fresh.get())) static_cast<void>(fresh.release());
  }
  return *tensor.load();
}
// LITERALINCLUDE END: host-loop-empty

namespace {

// LITERALINCLUDE START: host-loop-operands
using Owned = c10::MaybeOwned<at::TensorBase>;

bool is_number(const at::OperandInfo& operand) { return operand.tensor_base().numel() == 1; }

// Copies a number of the host, as in x + 1, since the caller may change it.
void keep_number(at::OperandInfo& operand) {
  at::TensorBase number = at::detail::empty_cpu({}, c10::TensorOptions(operand.current_dtype));
  std::memcpy(number.mutable_data_ptr(), operand.data, number.itemsize());
  operand.data = number.mutable_data_ptr();
  operand.tensor(Owned::owned(std::move(number)));
}
// LITERALINCLUDE END: host-loop-operands

}  // namespace

// LITERALINCLUDE START: host-loop-addresses
HostIterator::HostIterator(const at::TensorIteratorBase& iter, bool converts)
    : TensorIteratorBase(iter), converts_(converts) {
  // Does not access device tensors: some of PyTorch's iterators, such as that of glu, borrow views that are gone.
  const bool is_empty = iter.numel() == 0;
  for (int i = 0; i < iter.ntensors(); ++i) {
    at::OperandInfo& operand = operands_[i];
    if (iter.device(i).is_cpu()) {
      keep_number(operand);
    } else {
      const size_t bytes = is_empty ? 0 : operand_bytes(iter, i);
      bytes_ += bytes;
      operand.data = is_empty ? nullptr : host_alias(operand.data, bytes);
      operand.tensor(Owned::borrowed(empty_tensor(operand.current_dtype)));
      operand.device = c10::kCPU;
    }
  }
  common_device_ = c10::kCPU;
}

const at::Tensor& HostIterator::maybe_get_output(int64_t i) {  // NOT PROVEN: called only while an iterator is built
  return operands_[i].tensor();  // NOT PROVEN: called only while an iterator is built
}
// LITERALINCLUDE END: host-loop-addresses

// LITERALINCLUDE START: host-loop-convert
// Comparisons write bool, whatever dtype they compare.
bool HostIterator::to_convert(const at::OperandInfo& operand) const {
  return converts_ && common_dtype_ != at::ScalarType::Undefined && operand.current_dtype != common_dtype_ &&
         !(operand.is_output && operand.current_dtype == at::kBool);
}

// A broadcast dimension gets size 1.
at::Tensor HostIterator::view(const at::OperandInfo& operand) const {
  if (operand.data == nullptr) {
    return at::empty(shape_, c10::TensorOptions(operand.current_dtype));
  }
  const auto itemsize = static_cast<int64_t>(c10::elementSize(operand.current_dtype));
  at::DimVector sizes;
  at::DimVector strides;
  for (size_t dim = 0; dim < shape_.size(); ++dim) {
    sizes.push_back(operand.stride_bytes[dim] == 0 ? 1 : shape_[dim]);
    strides.push_back(operand.stride_bytes[dim] / itemsize);
  }
  return at::from_blob(operand.data, sizes, strides, c10::TensorOptions(operand.current_dtype));
}

void HostIterator::replace(at::OperandInfo& operand, const at::Tensor& there, const at::Tensor& converted) const {
  operand.data = converted.data_ptr();
  operand.current_dtype = common_dtype_;
  for (size_t dim = 0; dim < shape_.size(); ++dim) {
    if (operand.stride_bytes[dim] != 0) {
      operand.stride_bytes[dim] = converted.stride(static_cast<int64_t>(dim)) * converted.element_size();
    }
  }
  if (!is_number(operand)) operand.tensor(Owned::owned(at::TensorBase(there)));
  // Some loops read the original of a one-element operand, which may be more precise.
  operand.exchange_tensor(Owned::owned(at::TensorBase(converted)));
}
// LITERALINCLUDE END: host-loop-convert

// LITERALINCLUDE START: host-loop-run
void HostIterator::run(Loop loop) {
  if (std::ranges::none_of(operands_, [this](const at::OperandInfo& operand) { return to_convert(operand); })) {
    loop(*this);
  } else {
    // This iterator keeps the operands themselves: a replay must convert what they hold by then.
    HostIterator(*this).convert_and_run(loop);
  }
}

void HostIterator::convert_and_run(Loop loop) {
  const LibraryScope scope;
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 4> converted;  // the original, and what replaces it
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
// LITERALINCLUDE END: host-loop-run

}  // namespace openreg
