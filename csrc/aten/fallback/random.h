// Random numbers for the CPU fallback: a CPU generator that stands in for the device's.
#pragma once

#include <ATen/core/Generator.h>

namespace openreg {

// Returns a CPU generator whose numbers depend on the device generator's seed and offset alone, and advances that
// offset. An undefined generator means the device's default one. Seeding the device therefore determines what a random
// operator returns there, although it runs on the CPU, and leaves the CPU's own generator alone.
// Throws: when the generator is not one of this device.
at::Generator stand_in_generator(const at::Generator& generator, c10::Device device);

}  // namespace openreg
