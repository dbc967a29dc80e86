// The loops for lists of tensors (list_loop.h), and the kernel that runs one of them over all tensors of its lists.
#include "kernels/optim/list_loop.h"

#include <ATen/native/BinaryOps.h>
#include <ATen/native/Lerp.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/UnaryOps.h>

#include <algorithm>
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
  std::string_view overload;  // "Scalar" includes "ScalarList"
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
    {"neg", "", {plain<at::native::neg_stub>}},
    {"sqrt", "", {plain<at::native::sqrt_stub>}},
    {"reciprocal", "", {plain<at::native::reciprocal_stub>}},
};
// LITERALINCLUDE END: list-loop-table

bool remove_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

const ListLoop* find_list_loop(std::string_view name, std::string_view overload) {
  if (!remove_prefix(name, "aten::_foreach_")) return nullptr;
  if (name.ends_with('_')) name.remove_suffix(1);
  if (overload == "ScalarList") overload = "Scalar";
  const auto* const found = std::ranges::find_if(
      kLoops, [&](const NamedLoop& named) { return named.name == name && named.overload == overload; });
  return found == std::end(kLoops) ? nullptr : &found->loop;
}

// LITERALINCLUDE START: list-loop-run
void ListLoopCall::operator()() const {
  std::optional<HostNumber> operand;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double number = numbers.empty() ? 0 : numbers[numbers.size() == 1 ? 0 : i];
    if (loop->number_is_operand && (i == 0 || numbers.size() > 1)) operand.emplace(number, dtype);
    AdjacentIterator iter(dtype, std::span(parts[i].at).first(operands), parts[i].numel, operand ? &*operand : nullptr);
    loop->compute(iter, number);
  }
}
// LITERALINCLUDE END: list-loop-run

}  // namespace openreg
