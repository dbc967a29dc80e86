// Reductions over the operands of a TensorIterator: many inputs become one output.
//
// In the iterator of a reduction the output has stride 0 in each reduced dimension. For kernel files only: see Note
// [Host code as kernels].
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/util/Load.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/launch.h"
#include "kernels/loops/rows.h"

namespace openreg {

// LITERALINCLUDE START: reduction-loop
// out = result(combine(combine(identity, in), in) ...), for each output. A Reduction has
//   Out, In, Accumulator                         types; the accumulator is the wider one
//   Accumulator identity                         where to start
//   combine(Accumulator, Accumulator)            associative and commutative: the order is not kept
//   Out result(Accumulator)
template <class Reduction>
struct ReductionLoop {
  using Accumulator = typename Reduction::Accumulator;
  using In = typename Reduction::In;

  Reduction reduction;
  Rows<2> kept;     // output and input, in the dimensions that are kept
  Rows<1> reduced;  // input, in the reduced dimensions
  char* out;
  char* in;

  void operator()() const {
    // The dimension with the smaller stride of the input is the inner loop. A single output has no other beside it.
    const bool across = kept.count() > 1 && kept.stride(1) < reduced.stride(0);
    kept.for_each({out, in}, [&](const std::array<char*, 2>& row) {
      const int64_t step = across ? kAcross : 1;
      for (int64_t first = 0; first < kept.count(); first += step) {
        char* const out_at = row[0] + first * kept.stride(0);
        char* const in_at = row[1] + first * kept.stride(1);
        across ? reduce_across(out_at, in_at, std::min(step, kept.count() - first)) : reduce_along(out_at, in_at);
      }
    });
  }

 private:
  // Accumulators of one output. Not 16: g++ unrolls a loop of 16 entirely, and then does not vectorize a choice.
  static constexpr int64_t kAlong = 32;
  // Outputs that are computed at once. Their accumulators fit into the cache nearest to a core, and the input is read
  // in stretches long enough for the processor to fetch what follows: with 128 outputs it took 1.7 times as long.
  static constexpr int64_t kAcross = 1024;

  // Computes one output. Its inputs go to the accumulators in turn, which also keeps the rounding error of a sum small.
  void reduce_along(char* out_at, char* in_at) const {
    std::array<Accumulator, kAlong> accumulators;
    accumulators.fill(reduction.identity);
    const int64_t count = reduced.count();
    const int64_t stride = reduced.stride(0);
    const int64_t blocks = stride == sizeof(In) ? count / kAlong : 0;
    reduced.for_each({in_at}, [&](const std::array<char*, 1>& row) {
      combine_blocks(accumulators, reinterpret_cast<const In*>(row[0]), blocks);
      for (int64_t first = blocks * kAlong; first < count; first += kAlong) {
        combine_strided(accumulators.data(), row[0] + first * stride, stride, std::min(kAlong, count - first));
      }
    });
    Accumulator all = reduction.identity;
    for (const Accumulator& accumulator : accumulators) all = reduction.combine(all, accumulator);
    store(out_at, all);
  }

  // Computes several adjacent outputs, each with its own accumulator.
  void reduce_across(char* out_at, char* in_at, int64_t outputs) const {
    std::array<Accumulator, kAcross> accumulators;
    std::fill_n(accumulators.begin(), outputs, reduction.identity);
    reduced.for_each({in_at}, [&](const std::array<char*, 1>& row) {
      if (kept.stride(1) == sizeof(In)) {
        combine_rows(accumulators.data(), row[0], outputs);
        return;
      }
      for (int64_t i = 0; i < reduced.count(); ++i) {
        combine_strided(accumulators.data(), row[0] + i * reduced.stride(0), kept.stride(1), outputs);
      }
    });
    for (int64_t i = 0; i < outputs; ++i) store(out_at + i * kept.stride(0), accumulators[i]);
  }

  // Three loops of one kind: adjacent inputs of one output, with the accumulators in registers; rows of adjacent
  // inputs, one for each output; and inputs at any distance. Compilers vectorize the first two.
  OPENREG_WIDE void combine_blocks(std::array<Accumulator, kAlong>& accumulators, const In* in, int64_t blocks) const {
    std::array<Accumulator, kAlong> own = accumulators;
    for (int64_t block = 0; block < blocks; ++block, in += kAlong) combine_adjacent(own.data(), in, kAlong);
    accumulators = own;
  }
  OPENREG_WIDE void combine_rows(Accumulator* accumulators, const char* in, int64_t outputs) const {
    for (int64_t i = 0; i < reduced.count(); ++i, in += reduced.stride(0)) {
      combine_adjacent(accumulators, reinterpret_cast<const In*>(in), outputs);
    }
  }
  void combine_strided(Accumulator* accumulators, const char* in, int64_t stride, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      combine_adjacent(accumulators + i, reinterpret_cast<const In*>(in + i * stride), 1);
    }
  }
  void combine_adjacent(Accumulator* accumulators, const In* in, int64_t count) const {
    OPENREG_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) {
      accumulators[i] = reduction.combine(accumulators[i], static_cast<Accumulator>(c10::load(in + i)));
    }
  }
  void store(char* out_at, const Accumulator& accumulator) const {
    *reinterpret_cast<typename Reduction::Out*>(out_at) = reduction.result(accumulator);
  }
};
// LITERALINCLUDE END: reduction-loop

// LITERALINCLUDE START: reduction-launch
// Queues a reduction: operand 0 is the output, operand 1 the input, with the dtypes of the reduction.
template <class Reduction>
void launch_reduction(const char* name, const at::TensorIteratorBase& iter, Reduction reduction) {
  Rows<2> kept;
  Rows<1> reduced;
  for (int dim = 0; dim < iter.ndim(); ++dim) {
    if (iter.is_dim_reduced(dim)) {
      reduced.add_dimension(iter.shape()[dim], {iter.strides(1)[dim]});
    } else {
      kept.add_dimension(iter.shape()[dim], {iter.strides(0)[dim], iter.strides(1)[dim]});
    }
  }
  kept.one_row_at_least();
  reduced.one_row_at_least();
  const size_t out_bytes = operand_bytes(iter, 0);
  const size_t in_bytes = operand_bytes(iter, 1);
  launch(name, iter.device(0).index(), out_bytes + in_bytes,
         ReductionLoop<Reduction>{std::move(reduction), std::move(kept), std::move(reduced),
                                  host_alias(static_cast<char*>(iter.data_ptr(0)), out_bytes),
                                  host_alias(static_cast<char*>(iter.data_ptr(1)), in_bytes)});
}
// LITERALINCLUDE END: reduction-launch

}  // namespace openreg
