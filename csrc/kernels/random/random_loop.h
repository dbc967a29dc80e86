// Fills a tensor with random numbers. For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/core/Generator.h>

#include "kernels/launch.h"
#include "kernels/loops/indexed_loop.h"
#include "kernels/random/philox.h"
#include "runtime/generator.h"

namespace openreg {

// LITERALINCLUDE START: random-launch
// Sets an element to the distribution's value for its block.
template <class T, class Distribution>
struct Draw {
  PhiloxSequence sequence;
  Distribution distribution;

  void operator()(const std::array<char*, 1>& at, uint64_t number) const {
    *reinterpret_cast<T*>(at[0]) = distribution(sequence[number]);
  }
};

// The sequence that begins at the positions, for a kernel.
inline PhiloxSequence sequence_of(const Positions& first) {
  return {first.seed, first.offset, first.start == nullptr ? nullptr : host_alias(first.start, 2 * sizeof(uint64_t))};
}

// Reserves the blocks of an operator that draws `count` numbers.
inline PhiloxSequence reserve_blocks(const std::optional<at::Generator>& generator, c10::Device device,
                                     uint64_t count) {
  return sequence_of(reserve_positions(generator, device, count));
}

// Reserves one block for each element, then queues the kernel: the numbers are determined before it runs.
template <class T, class Distribution>
void launch_random(const at::TensorBase& self, const std::optional<at::Generator>& generator,
                   Distribution distribution) {
  const PhiloxSequence sequence = reserve_blocks(generator, self.device(), self.numel());
  launch_indexed<1>(Distribution::kName, {self}, Draw<T, Distribution>{sequence, distribution});
}
// LITERALINCLUDE END: random-launch

}  // namespace openreg
