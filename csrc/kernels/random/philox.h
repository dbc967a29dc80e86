// Philox 4x32-10, a counter-based generator: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011. It turns a counter of 128 bits and a key of 64 bits into 128 random bits, and keeps no state.
//
// It depends neither on PyTorch nor on the host: a kernel in a device's own language can copy it line by line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace openreg {

using PhiloxBlock = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// LITERALINCLUDE START: philox-rounds
inline PhiloxBlock philox_round(const PhiloxBlock& in, const PhiloxKey& key) {
  const uint64_t first = uint64_t{0xD2511F53} * in[0];
  const uint64_t second = uint64_t{0xCD9E8D57} * in[2];
  return {static_cast<uint32_t>(second >> 32) ^ in[1] ^ key[0], static_cast<uint32_t>(second),
          static_cast<uint32_t>(first >> 32) ^ in[3] ^ key[1], static_cast<uint32_t>(first)};
}

// Writes the words of `count` blocks of random bits; counter_of(i) is the counter of block i. Adjacent counters give
// unrelated blocks. Requires: count <= kMost.
//
// A round of a block needs the round before, but no other block. So each round is done for all blocks before the next
// one begins, and compilers turn the loop over the blocks into vector instructions.
template <size_t kMost, class CounterOf>
void philox(size_t count, const CounterOf& counter_of, PhiloxKey key, uint32_t* words) {
  std::array<std::array<uint32_t, kMost>, 4> state;  // a vector holds the same word of adjacent blocks
  const auto set = [&state](size_t i, const PhiloxBlock& block) {
    for (size_t word = 0; word < 4; ++word) state[word][i] = block[word];
  };
  for (size_t i = 0; i < count; ++i) set(i, counter_of(i));
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < count; ++i) {
      set(i, philox_round({state[0][i], state[1][i], state[2][i], state[3][i]}, key));
    }
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  for (size_t i = 0; i < count; ++i) {
    for (size_t word = 0; word < 4; ++word) words[4 * i + word] = state[word][i];
  }
}
// LITERALINCLUDE END: philox-rounds

// LITERALINCLUDE START: philox-shared-blocks
// How many elements share a block, if each takes a uint32_t, a uint64_t or the whole block.
template <class Bits>
constexpr uint64_t kPhiloxSharing = sizeof(PhiloxBlock) / sizeof(Bits);

// The counter of the block that has the bits of a position. The third word and the fourth keep apart what shares blocks
// in different ways, so that no bits are drawn twice. In pairs, two elements take the bits of both.
template <class Bits, bool kInPairs = false>
PhiloxBlock philox_counter(uint64_t position) {
  const uint64_t block = position / kPhiloxSharing<Bits>;
  return {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), kPhiloxSharing<Bits> - 1, kInPairs};
}

// The bits of element number `index`, counted from the first of these blocks.
template <class Bits>
Bits philox_bits(const uint32_t* words, size_t index) {
  if constexpr (std::is_same_v<Bits, uint32_t>) {
    return words[index];
  } else if constexpr (std::is_same_v<Bits, uint64_t>) {
    return words[2 * index] | uint64_t{words[2 * index + 1]} << 32;
  } else {
    return {words[4 * index], words[4 * index + 1], words[4 * index + 2], words[4 * index + 3]};
  }
}
// LITERALINCLUDE END: philox-shared-blocks

// LITERALINCLUDE START: philox-sequence
// The positions that an operator has reserved, one for each element. They are in one of 2^64 sequences (one for each
// seed) of 2^64 positions each.
struct PhiloxSequence {
  uint64_t seed = 0;
  uint64_t offset = 0;  // the operator's first position in the sequence
  // In a graph: two numbers that each replay sets before the kernel runs, the seed and what is added to the offset.
  const uint64_t* start = nullptr;

  // The sequence as it is when the kernel runs.
  PhiloxSequence now() const { return start == nullptr ? *this : PhiloxSequence{start[0], start[1] + offset}; }

  PhiloxKey key() const { return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}; }
};
// LITERALINCLUDE END: philox-sequence

}  // namespace openreg
