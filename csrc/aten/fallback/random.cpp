// Random numbers for the CPU fallback. Called on any thread; takes the device generator's lock for the draw.
#include "aten/fallback/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include "runtime/generator.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: random-stand-in-seed
// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): a bijective mixing of
// consecutive inputs, made for seeding other generators.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// Fills the whole state of the Mersenne Twister, so that all 64 bits of both seed and offset count. Its own seeding
// takes only 32 bits.
at::mt19937 engine_at(uint64_t seed, uint64_t offset) {
  constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15ULL;
  uint64_t input = mix(seed + kGoldenGamma) ^ mix(mix(offset + kGoldenGamma) + kGoldenGamma);
  at::mt19937_data_pod data{};
  data.seed_ = seed;
  data.left_ = 1;  // The state is stirred before the first number is taken.
  data.seeded_ = true;
  for (uint32_t& word : data.state_) {
    word = static_cast<uint32_t>(mix(input += kGoldenGamma));
  }
  at::mt19937 engine;
  engine.set_data(data);
  return engine;
}
// LITERALINCLUDE END: random-stand-in-seed

}  // namespace

// LITERALINCLUDE START: random-stand-in-generator
at::Generator stand_in_generator(const at::Generator& generator, c10::Device device) {
  const Positions at = reserve_positions(generator, device, 1);
  at::Generator stand_in = at::make_generator<at::CPUGeneratorImpl>();
  stand_in.get<at::CPUGeneratorImpl>()->set_engine(engine_at(at.seed, at.offset));
  return stand_in;
}
// LITERALINCLUDE END: random-stand-in-generator

}  // namespace openreg
