// ReduceOp and dtype against what Gloo offers: SUM, PRODUCT, MIN and MAX of seven dtypes, and the bitwise ones of
// integers. Called on the thread that calls the collective; combine() and finish() on threads of the process group.
#include "distributed/reduction.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/InferenceMode.h>

namespace openreg {
namespace {

using Op = c10d::ReduceOp::RedOpType;

const char* op_name(Op op) {
  switch (op) {
    case Op::SUM:
      return "SUM";
    case Op::AVG:
      return "AVG";
    case Op::PRODUCT:
      return "PRODUCT";
    case Op::MIN:
      return "MIN";
    case Op::MAX:
      return "MAX";
    case Op::BAND:
      return "BAND";
    case Op::BOR:
      return "BOR";
    case Op::BXOR:
      return "BXOR";
    case Op::PREMUL_SUM:
      return "PREMUL_SUM";
    case Op::UNUSED:
      return "UNUSED";
  }
  return "an unknown operation";
}

bool is_sum(Op op) { return op == Op::SUM || op == Op::AVG || op == Op::PREMUL_SUM; }

bool is_bitwise(Op op) { return op == Op::BAND || op == Op::BOR || op == Op::BXOR; }

// LITERALINCLUDE START: distributed-reduction-check
// The dtype in which the host library computes, or nothing where it cannot.
std::optional<at::ScalarType> host_dtype(Op op, at::ScalarType dtype) {
  const bool is_complex = dtype == at::kComplexFloat || dtype == at::kComplexDouble;
  // Sums work on each part alone. Products do not, and complex numbers have no order.
  if (is_complex) return is_sum(op) ? std::optional(c10::toRealValueType(dtype)) : std::nullopt;
  switch (dtype) {
    case at::kByte:
    case at::kChar:
    case at::kInt:
    case at::kLong:
      return op == Op::PREMUL_SUM ? std::nullopt : std::optional(dtype);
    case at::kBool:
      return op == Op::AVG || op == Op::PREMUL_SUM ? std::nullopt : std::optional(at::kByte);
    case at::kHalf:
    case at::kBFloat16:
    case at::kFloat:
    case at::kDouble:
      return is_bitwise(op) ? std::nullopt : std::optional(dtype);
    default:
      return std::nullopt;
  }
}

// The operation of the host library. For bools, a sum is "any" and a product is "all": 1 + 1 would not be a bool.
Op host_op(Op op, at::ScalarType dtype) {
  if (op == Op::AVG || op == Op::PREMUL_SUM) return Op::SUM;
  if (dtype == at::kBool && op == Op::SUM) return Op::MAX;
  if (dtype == at::kBool && op == Op::PRODUCT) return Op::MIN;
  return op;
}
// LITERALINCLUDE END: distributed-reduction-check

}  // namespace

const char* Reduction::name_of(int64_t number) { return op_name(static_cast<Op>(number)); }

// LITERALINCLUDE START: distributed-reduction-apply
Reduction::Reduction(const char* name, const c10d::ReduceOp& op, at::ScalarType dtype, int processes)
    : op_(op), dtype_(dtype) {
  TORCH_CHECK_TYPE(
      op != Op::UNUSED && host_dtype(op, dtype).has_value(), name, ": ", op_name(op), " of ", dtype,
      " is not supported: Gloo reduces uint8, int8, int32, int64, float16, bfloat16, float32 and float64 ",
      "(bitwise operations: only the integers); complex64 and complex128 can be summed and averaged, and ",
      "bools reduced by all but AVG. PREMUL_SUM takes no integers and no bools. Convert the tensor, or choose ",
      "another operation.");
  on_host_ = c10d::ReduceOp(host_op(op, dtype));
  if (op == Op::AVG) divisor_ = processes;
  if (op == Op::PREMUL_SUM) {
    factor_ = c10::dynamic_intrusive_pointer_cast<c10d::PreMulSumSupplement>(op.supplement_);
    TORCH_CHECK_VALUE(factor_ != nullptr, name, ": PREMUL_SUM without a factor");
  }
}

at::Tensor Reduction::view(const at::Tensor& host) const {
  if (dtype_ == at::kBool) {
    const c10::InferenceMode normal(false);  // Gloo's threads write to it, and a view of that mode belongs to the mode
    return host.view(at::kByte);
  }
  return c10::isComplexType(dtype_) ? at::view_as_real(host).view(-1) : host;
}

at::Tensor Reduction::prepare(const at::Tensor& tensor) const {
  if (factor_ == nullptr) return tensor;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  if (factor_->tensor_factor.defined()) return tensor * factor_->tensor_factor.to(tensor.options()).reshape({});
  return tensor * factor_->double_factor;
}

void Reduction::finish(const at::Tensor& sum) const {
  if (!divisor_.has_value()) return;
  if (c10::isIntegralType(dtype_, /*includeBool=*/false)) {
    sum.div_(*divisor_, "trunc");
  } else {
    (sum.is_complex() ? at::view_as_real(sum) : sum).div_(*divisor_);  // part by part, as a view is
  }
}
// LITERALINCLUDE END: distributed-reduction-apply

// LITERALINCLUDE START: distributed-reduction-combine
void Reduction::combine(at::Tensor into, const at::Tensor& left, const at::Tensor& right) const {
  switch (on_host_) {
    case Op::SUM:
      at::add_out(into, left, right);
      return;
    case Op::PRODUCT:
      at::mul_out(into, left, right);
      return;
    case Op::MIN:
      at::minimum_out(into, left, right);
      return;
    case Op::MAX:
      at::maximum_out(into, left, right);
      return;
    case Op::BAND:
      at::bitwise_and_out(into, left, right);
      return;
    case Op::BOR:
      at::bitwise_or_out(into, left, right);
      return;
    case Op::BXOR:
      at::bitwise_xor_out(into, left, right);
      return;
    default:  // NOT PROVEN: the constructor chooses one of the above
      TORCH_INTERNAL_ASSERT(false, "not computed: ", op_name(on_host_));  // NOT PROVEN: as above
  }
}
// LITERALINCLUDE END: distributed-reduction-combine

}  // namespace openreg
