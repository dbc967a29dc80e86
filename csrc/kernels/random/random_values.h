// The random values of consecutive elements, computed a batch at a time. For kernel files only.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "kernels/loops/rows.h"
#include "kernels/random/philox.h"

namespace openreg {

// LITERALINCLUDE START: random-values
// The values of a distribution for the elements of an operator, from number `first` on. Any thread may compute those of
// any elements, in any order. A distribution is a function of Distribution::Bits, or of two of them, which gives the
// values of two elements that share a block.
template <class T, class Distribution>
class RandomValues {
  using Bits = typename Distribution::Bits;
  static constexpr uint64_t kSharing = kPhiloxSharing<Bits>;
  static constexpr bool kInPairs = std::is_invocable_v<Distribution, Bits, Bits>;

 public:
  RandomValues(const PhiloxSequence& sequence, const Distribution& distribution, uint64_t first, uint64_t count)
      : distribution_(distribution),
        key_(sequence.now().key()),
        position_(sequence.now().offset + first),
        left_(count) {}

  // The values of the next elements: one at least and `most` at most. Valid until the next call.
  // Requires: as many elements are left.
  std::span<const T> next(uint64_t most) {
    if (ready_.empty()) draw_batch();
    const auto taken = ready_.first(std::min<uint64_t>(ready_.size(), most));
    ready_ = ready_.subspan(taken.size());
    return taken;
  }

 private:
  static constexpr uint64_t kBatch = 256;

  // Begins with the block that contains the next element.
  void draw_batch() {
    const uint64_t before = position_ % kSharing;  // elements of that block which precede it
    const uint64_t begin = position_ - before;
    const uint64_t end = std::min(before + left_, kBatch);
    const uint64_t blocks = (end + kSharing - 1) / kSharing;
    philox<kBatch / kSharing>(
        blocks, [&](uint64_t block) { return philox_counter<Bits, kInPairs>(begin + block * kSharing); }, key_,
        words_.data());
    transform(blocks * kSharing);
    ready_ = std::span<const T>(values_).subspan(before, end - before);
    position_ = begin + end;
    left_ -= ready_.size();
  }

  OPENREG_WIDE void transform(uint64_t count) {
    const auto bits = [&](uint64_t i) { return philox_bits<Bits>(words_.data(), i); };
    if constexpr (kInPairs) {
      OPENREG_INDEPENDENT
      for (uint64_t i = 0; i < count; i += 2) {
        const auto pair = distribution_(bits(i), bits(i + 1));
        values_[i] = static_cast<T>(pair[0]);
        values_[i + 1] = static_cast<T>(pair[1]);
      }
    } else {
      OPENREG_INDEPENDENT
      for (uint64_t i = 0; i < count; ++i) values_[i] = distribution_(bits(i));
    }
  }

  const Distribution distribution_;
  const PhiloxKey key_;
  uint64_t position_;  // of the first element whose value has not been computed
  uint64_t left_;  // elements whose values have not been computed
  std::span<const T> ready_;
  std::array<uint32_t, 4 * kBatch / kSharing> words_;
  std::array<T, kBatch> values_;
};
// LITERALINCLUDE END: random-values

}  // namespace openreg
