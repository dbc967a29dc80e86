// Reductions: which of them the host library computes, and how the others are brought to a form that it does.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>

namespace openreg {

// LITERALINCLUDE START: distributed-reduction-class
class Reduction {
 public:
  // Throws: when the operation is not defined for the dtype, or the host library cannot compute it.
  Reduction(const char* name, const c10d::ReduceOp& op, at::ScalarType dtype, int processes);

  // The operation that the program has given, as a number that ranks can compare; and its name.
  int64_t number() const { return static_cast<int64_t>(op_); }
  static const char* name_of(int64_t number);
  // What the host library computes.
  c10d::ReduceOp on_host() const { return on_host_; }
  // What it computes it of: complex numbers are pairs of real ones, and bools are bytes of 0 and 1.
  at::Tensor view(const at::Tensor& host) const;
  // On the device, before the exchange: PREMUL_SUM multiplies here.
  at::Tensor prepare(const at::Tensor& tensor) const;
  // On the device, where the host library takes no part: what it would compute, of two views.
  void combine(at::Tensor into, const at::Tensor& left, const at::Tensor& right) const;
  // After the exchange: AVG divides the sum here.
  void finish(const at::Tensor& sum) const;

 private:
  c10d::ReduceOp::RedOpType op_;
  c10d::ReduceOp on_host_;
  at::ScalarType dtype_;
  std::optional<int> divisor_;
  c10::intrusive_ptr<c10d::PreMulSumSupplement> factor_;
};
// LITERALINCLUDE END: distributed-reduction-class

}  // namespace openreg
