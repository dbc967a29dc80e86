// Random numbers: one generator per device, whose whole state is a seed and an offset.
//
// Counter-based generators (Philox and its kin) need no more: the n-th number of a sequence is a function of the
// seed and n. PyTorch's distributed tensors rely on exactly this state of 16 bytes.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <utility>

namespace openreg {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index);

  // The dispatch looks generators up by this type: at::check_generator<Generator>.
  static c10::DeviceType device_type() { return c10::kPrivateUse1; }

  void set_current_seed(uint64_t seed) override;  // also sets the offset to 0
  uint64_t current_seed() const override;
  uint64_t seed() override;  // takes a seed from the operating system and returns it
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;

  // A uint8 tensor of 16 elements on the CPU: the seed, then the offset, each in the machine's byte order.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void set_state(const c10::TensorImpl& state) override;

  // Hands out `count` positions of the sequence: the seed and the offset of the first one.
  // Requires: mutex_ is held, as for every use of a generator (see Note [Acquire lock when using random generators]
  // in ATen/core/Generator.h).
  std::pair<uint64_t, uint64_t> reserve(uint64_t count);

 private:
  Generator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

// The generator that a device's random operators use when the caller names none; -1 is the current device.
const at::Generator& default_generator(c10::DeviceIndex index);

// A new generator with the default seed; -1 is the current device.
at::Generator new_generator(c10::DeviceIndex index);

}  // namespace openreg
