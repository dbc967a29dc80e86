// The loops for lists of tensors (list_loop.h), and the kernel that runs one of them over all tensors of its lists.
#include "kernels/optim/list_loop.h"

#include <ATen/Dispatch.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/TensorBase.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Lerp.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "kernels/library/host_loop.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: list-loop-table
// A loop without a number, one with a number of its own, and a loop that multiplies the last input by a number.
template <auto& kStub>
void plain(at::TensorIteratorBase& iter, double) {
  kStub(c10::kCPU, iter);
}
template <auto& kStub>
void with_number(at::TensorIteratorBase& iter, double number) {
  kStub(c10::kCPU, iter, number);
}
// A limit that is NaN is the result, as of the operators; their loops would ignore it.
template <auto& kStub>
void limit(at::TensorIteratorBase& iter, double number) {
  if (!std::isnan(number)) return kStub(c10::kCPU, iter, number);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, iter.dtype(0), "limit", [&] {
    std::fill_n(static_cast<scalar_t*>(iter.data_ptr(0)), iter.numel(), static_cast<scalar_t>(number));
  });
}
void zero(at::TensorIteratorBase& iter, double) {
  std::memset(iter.data_ptr(0), 0, static_cast<size_t>(iter.numel() * iter.element_size(0)));
}
template <int kSign>
void add_multiple(at::TensorIteratorBase& iter, double number) {
  at::native::add_stub(c10::kCPU, iter, kSign * number);
}
template <int kSign>
void add_number(at::TensorIteratorBase& iter, double) {
  at::native::add_stub(c10::kCPU, iter, kSign);
}

struct NamedLoop {
  std::string_view name;
  std::string_view overload;  // "Scalar" includes "ScalarList", and "Tensor" in the two that have a number in a tensor
  ListLoop loop;
};
constexpr NamedLoop kLoops[] = {
    {"add", "List", {add_multiple<1>}},
    {"add", "Scalar", {add_number<1>, true}},
    {"sub", "List", {add_multiple<-1>}},
    {"sub", "Scalar", {add_number<-1>, true}},
    {"mul", "List", {plain<at::native::mul_stub>}},
    {"mul", "Scalar", {plain<at::native::mul_stub>, true}},
    {"div", "List", {plain<at::native::div_true_stub>}},
    {"div", "Scalar", {plain<at::native::div_true_stub>, true}},
    {"addcmul", "Scalar", {with_number<at::native::addcmul_stub>}},
    {"addcdiv", "Scalar", {with_number<at::native::addcdiv_stub>}},
    {"lerp", "Scalar", {with_number<at::native::lerp_kernel_scalar_weight>}},
    {"lerp", "List", {plain<at::native::lerp_kernel_tensor_weight>}},
    {"maximum", "List", {plain<at::native::maximum_stub>}},
    {"minimum", "List", {plain<at::native::minimum_stub>}},
    {"clamp_min", "Scalar", {limit<at::native::clamp_min_scalar_stub>}},
    {"clamp_max", "Scalar", {limit<at::native::clamp_max_scalar_stub>}},
    {"abs", "", {plain<at::native::abs_stub>}},
    {"neg", "", {plain<at::native::neg_stub>}},
    {"sign", "", {plain<at::native::sign_stub>}},
    {"sqrt", "", {plain<at::native::sqrt_stub>}},
    {"rsqrt", "", {plain<at::native::rsqrt_stub>}},
    {"reciprocal", "", {plain<at::native::reciprocal_stub>}},
    {"zero", "", {zero}},
};
// LITERALINCLUDE END: list-loop-table

// LITERALINCLUDE START: list-loop-iterator
using Owned = c10::MaybeOwned<at::TensorBase>;

// A number as an operand. Loops for 16 bits read the number as it was given, others in the dtype of the call.
struct HostNumber {
  // Requires: the dtype has the number.
  HostNumber(double number, at::ScalarType dtype)
      : given(at::detail::empty_cpu({}, c10::TensorOptions(at::kDouble))),
        converted(dtype == at::kDouble ? given : at::detail::empty_cpu({}, c10::TensorOptions(dtype))) {
    *static_cast<double*>(given.mutable_data_ptr()) = number;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "HostNumber", [&] {
      *static_cast<scalar_t*>(converted.mutable_data_ptr()) = static_cast<scalar_t>(number);
    });
  }
  at::TensorBase given;
  at::TensorBase converted;
};

// An iterator over adjacent elements. Unlike PyTorch's own, it need not find out dtype, shape and overlap, since they
// are known, and it needs no tensors, but addresses.
class AdjacentIterator final : public at::TensorIteratorBase {
 public:
  // Operand 0 is the output. The number, if there is one, is the last input, and must outlive the iterator.
  AdjacentIterator(at::ScalarType dtype, std::span<char* const> operands, int64_t numel, const HostNumber* number) {
    shape_ = {numel};
    has_coalesced_dimensions_ = true;
    all_ops_same_shape_ = number == nullptr;
    common_dtype_ = dtype;
    num_outputs_ = 1;
    const auto itemsize = static_cast<int64_t>(c10::elementSize(dtype));
    for (char* const data : operands) add_operand(data, itemsize, empty_tensor(dtype));
    operands_[0].is_output = true;
    if (number != nullptr) {
      add_operand(static_cast<char*>(number->converted.mutable_data_ptr()), 0, number->given);
      operands_.back().exchange_tensor(Owned::borrowed(number->converted));
    }
  }

 private:
  const at::Tensor& maybe_get_output(int64_t i) override {  // NOT PROVEN: called only while an iterator is built
    return operands_[i].tensor();  // NOT PROVEN: called only while an iterator is built
  }
  void add_operand(char* data, int64_t stride_bytes, const at::TensorBase& tensor) {
    at::OperandInfo& operand = operands_.emplace_back();
    operand.tensor(Owned::borrowed(tensor));
    operand.data = data;
    operand.stride_bytes = {stride_bytes};
    operand.device = c10::kCPU;
    operand.target_dtype = common_dtype_;
    operand.current_dtype = common_dtype_;
  }
};
// LITERALINCLUDE END: list-loop-iterator

bool remove_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

const ListLoop* find_list_loop(std::string_view name, std::string_view overload) {
  if (!remove_prefix(name, "aten::_foreach_")) return nullptr;
  if (name.ends_with('_')) name.remove_suffix(1);
  if (overload == "ScalarList" || (overload == "Tensor" && (name == "mul" || name == "div"))) overload = "Scalar";
  const auto* const found = std::ranges::find_if(
      kLoops, [&](const NamedLoop& named) { return named.name == name && named.overload == overload; });
  return found == std::end(kLoops) ? nullptr : &found->loop;
}

// LITERALINCLUDE START: list-loop-run
double read_number(const void* number, at::ScalarType dtype) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "read_number",
                                         [&] { return static_cast<double>(*static_cast<const scalar_t*>(number)); });
}

double ListLoopCall::number_of(size_t part) const {
  if (number_at != nullptr) return read_number(number_at, dtype);
  return numbers.empty() ? 0 : numbers[numbers.size() == 1 ? 0 : part];
}

void ListLoopCall::operator()() const {
  std::optional<HostNumber> operand;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double number = number_of(i);
    if (loop->number_is_operand && (i == 0 || numbers.size() > 1)) operand.emplace(number, dtype);
    AdjacentIterator iter(dtype, std::span(parts[i].at).first(operands), parts[i].numel, operand ? &*operand : nullptr);
    loop->compute(iter, number);
  }
}
// LITERALINCLUDE END: list-loop-run

}  // namespace openreg
