// Kernels that draw random numbers: loops over elements in the tensor's logical, row-major order.
//
// A TensorIterator (elementwise.h) visits elements in the order that suits the memory. Random numbers must not depend
// on the memory layout, so these kernels count elements themselves. For kernel files only: see Note [Host code as
// kernels].
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Generator.h>
#include <ATen/core/TensorBase.h>

#include <array>

#include "kernels/launch.h"
#include "kernels/loops/rows.h"
#include "kernels/random/random_values.h"
#include "runtime/generator.h"

namespace openreg {

// LITERALINCLUDE START: random-loop
// Calls body(addresses, value) for each element of N operands of one shape. Element number i gets the i-th value.
template <size_t N, class T, class Distribution, class Body>
struct RandomLoop {
  using Addresses = typename Rows<N>::Addresses;

  PhiloxSequence sequence;
  Distribution distribution;
  Body body;
  uint64_t elements;
  Rows<N> rows;  // the last dimension of the tensors is the first one here
  Addresses data;

  void operator()() const {
    RandomValues<T, Distribution> values(sequence, distribution, 0, elements);
    rows.for_each(data, [&](Addresses at) {
      for (uint64_t left = rows.count(); left > 0;) {
        const std::span<const T> run = values.next(left);
        for (const T& value : run) {
          body(at, value);
          rows.advance(at);
        }
        left -= run.size();
      }
    });
  }
};
// LITERALINCLUDE END: random-loop

// LITERALINCLUDE START: random-reserve
// The sequence that begins at the positions, for a kernel.
inline PhiloxSequence sequence_of(const Positions& first) {
  return {first.seed, first.offset, first.start == nullptr ? nullptr : host_alias(first.start, 2 * sizeof(uint64_t))};
}

// Reserves the positions of an operator that draws `count` numbers.
inline PhiloxSequence reserve_sequence(const std::optional<at::Generator>& generator, c10::Device device,
                                       uint64_t count) {
  return sequence_of(reserve_positions(generator, device, count));
}
// LITERALINCLUDE END: random-reserve

// LITERALINCLUDE START: random-launch
// Reserves one position for each element, then queues body(addresses, value) for each: the values, of type T, are
// determined before the kernel runs. Requires: the operands are on one device and have the same sizes.
template <class T, size_t N, class Distribution, class Body>
void launch_random_loop(const char* name, const std::array<at::TensorBase, N>& operands,
                        const std::optional<at::Generator>& generator, Distribution distribution, Body body) {
  const at::TensorBase& first = operands[0];
  const auto elements = static_cast<uint64_t>(first.numel());
  RandomLoop<N, T, Distribution, Body> loop{
      reserve_sequence(generator, first.device(), elements), distribution, body, elements, {}, {}};
  size_t bytes = 0;
  for (size_t i = 0; i < N; ++i) {
    const at::TensorBase& operand = operands[i];
    const size_t span = at::detail::computeStorageNbytes(operand.sizes(), operand.strides(), operand.element_size());
    loop.data[i] = host_alias(static_cast<char*>(operand.data_ptr()), span);
    bytes += span;
  }
  for (int64_t dim = first.dim() - 1; dim >= 0; --dim) {
    typename Rows<N>::Strides strides;
    for (size_t i = 0; i < N; ++i) {
      strides[i] = operands[i].stride(dim) * static_cast<int64_t>(operands[i].element_size());
    }
    loop.rows.add_dimension(first.size(dim), strides);
  }
  loop.rows.one_row_at_least();
  launch(name, first.device().index(), bytes, std::move(loop));
}

// Fills the tensor with values of the distribution.
template <class T, class Distribution>
void launch_random(const at::TensorBase& self, const std::optional<at::Generator>& generator,
                   Distribution distribution) {
  launch_random_loop<T, 1>(Distribution::kName, {self}, generator, distribution,
                           [](const std::array<char*, 1>& at, T value) { *reinterpret_cast<T*>(at[0]) = value; });
}
// LITERALINCLUDE END: random-launch

}  // namespace openreg
