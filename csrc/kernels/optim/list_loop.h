// Operators on lists of tensors whose loop the library has by itself, without an operator around it: the arithmetic of
// optimizers. For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace openreg {

// LITERALINCLUDE START: list-loop-contract
// The library's loop for one tensor of each list.
struct ListLoop {
  void (*compute)(at::TensorIteratorBase& iter, double number);
  bool number_is_operand = false;  // as in x * 2; else the loop takes it apart, as alpha in x + alpha * y

  static constexpr bool has(at::ScalarType dtype) {
    return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16;
  }
};

// The loop of an operator such as "aten::_foreach_add_", overload "List"; null if the operator has none here.
const ListLoop* find_list_loop(std::string_view name, std::string_view overload);

// Requires: host memory with a number of a dtype that has loops.
double read_number(const void* number, at::ScalarType dtype);

// One call of a loop: the output and up to three inputs, each with numel adjacent elements.
struct ListPart {
  std::array<char*, 4> at;
  int64_t numel;
};

// The loop over all parts, ready to run as a kernel.
struct ListLoopCall {
  const ListLoop* loop;
  at::ScalarType dtype;
  size_t operands;  // the output and the inputs that are tensors
  std::vector<ListPart> parts = {};
  std::vector<double> numbers = {};  // one for all parts, or one for each, or none
  const void* number_at = nullptr;   // a number for all parts, of the dtype, that earlier kernels may still compute

  void operator()() const;

 private:
  double number_of(size_t part) const;
};
// LITERALINCLUDE END: list-loop-contract

}  // namespace openreg
