// Philox 4x32-10, a counter-based generator: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011. It turns a counter of 128 bits and a key of 64 bits into 128 random bits, and keeps no state.
//
// It depends neither on PyTorch nor on the host: a kernel in a device's own language can copy it line by line.
#pragma once

#include <array>
#include <cstdint>

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

// Returns the block of random bits for a counter. Adjacent counters give unrelated blocks.
inline PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}
// LITERALINCLUDE END: philox-rounds

// LITERALINCLUDE START: philox-sequence
// The random blocks that an operator has reserved, in one of 2^64 sequences (one for each seed) of 2^64 blocks each.
struct PhiloxSequence {
  uint64_t seed = 0;
  uint64_t offset = 0;  // of the operator's first block in the sequence
  // In a graph: two numbers that each replay sets before the kernel runs, the seed and what is added to the offset.
  const uint64_t* start = nullptr;

  // The sequence as it is when the kernel runs.
  PhiloxSequence now() const { return start == nullptr ? *this : PhiloxSequence{start[0], start[1] + offset}; }

  // The block of the operator's element number `index`. Any thread may compute any block, in any order.
  PhiloxBlock operator[](uint64_t index) const {
    const PhiloxSequence own = now();
    const uint64_t position = own.offset + index;
    return philox({low(position), high(position), 0, 0}, {low(own.seed), high(own.seed)});
  }

 private:
  static uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
  static uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
};
// LITERALINCLUDE END: philox-sequence

}  // namespace openreg
