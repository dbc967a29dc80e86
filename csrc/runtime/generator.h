// Random numbers: one generator per device, whose whole state is a seed and an offset.
//
// Counter-based generators such as Philox need no more: the n-th number of a sequence is a function of the seed and n.
// PyTorch's distributed tensors rely on exactly this state of 16 bytes.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/torch_version.h"

namespace openreg {

// A range of a sequence of random numbers: which sequence, and the position of the first number.
struct Positions {
  uint64_t seed = 0;
  uint64_t offset = 0;
  // In a captured graph, the device memory of two numbers that every replay sets: the seed in place of the one above,
  // and a position that is added to the offset. Null otherwise.
  const uint64_t* start = nullptr;
};

// LITERALINCLUDE START: generator-class
class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index);

  void set_current_seed(uint64_t seed) override;  // also sets the offset to 0
  uint64_t current_seed() const override;
  uint64_t seed() override;  // takes a seed from the operating system and returns it
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;

  // A uint8 tensor of 16 elements on the CPU: the seed, then the offset, each in the machine's byte order.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void set_state(const c10::TensorImpl& state) override;

  // Return another generator over the same seed and offset, and adopt those of another one. Nothing is copied: a
  // number that one of them draws, the other does not draw.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) override;

#if OPENREG_TORCH_AT_LEAST(2, 14)
  // For kernels that are written in Python: reserves a range as PyTorch's random kernels count it. One position of this
  // generator has four 32-bit numbers, and PyTorch counts numbers: it divides the offset by four to get the counter.
  // Throws: when the offset would not fit 64 bits.
  void philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset, at::Tensor& intragraph_offset) override;
#endif

  // Reserves the next `count` positions of the sequence for the caller alone.
  // Requires: mutex_ is held, as for every use of a generator (see Note [Acquire lock when using random generators]
  // in ATen/core/Generator.h).
  Positions reserve(uint64_t count);

  [[nodiscard]] bool shares_state_with(const Generator& other) const;

 private:
  // Two generators may share it, each with a mutex_ of its own, so it has a mutex too.
  struct State {
    std::mutex mutex;
    Positions next{c10::default_rng_seed_val, 0};
  };

  Positions next() const;
  void set_next(Positions next);
  void refuse_change_in_capture() const;
  Generator* clone_impl() const override;

  std::shared_ptr<State> state_ = std::make_shared<State>();
};
// LITERALINCLUDE END: generator-class

// The generator that a device's random operators use when the caller names none; -1 is the current device.
const at::Generator& default_generator(c10::DeviceIndex index);

// A new generator with the default seed; -1 is the current device.
at::Generator new_generator(c10::DeviceIndex index);

// Reserves positions for a random operator on a device, from the generator that its caller passed, or from the default
// one. Holds the generator's lock for the reservation and no longer. While the device's current stream is captured, the
// positions are relative to where the generator is at each replay.
// Throws: when the generator is not one of this device.
Positions reserve_positions(const std::optional<at::Generator>& generator, c10::Device device, uint64_t count);

}  // namespace openreg
