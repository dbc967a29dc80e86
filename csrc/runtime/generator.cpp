// Random numbers: generators and their registry. Called on any thread; a generator's state is guarded by its mutex_,
// which the caller holds.
#include "runtime/generator.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <vector>

#include "runtime/device.h"

namespace openreg {
namespace {

constexpr size_t kStateBytes = 2 * sizeof(uint64_t);

}  // namespace

// LITERALINCLUDE START: generator-seed-and-offset
Generator::Generator(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(c10::kPrivateUse1, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t Generator::current_seed() const { return seed_; }

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void Generator::set_offset(uint64_t offset) { offset_ = offset; }

uint64_t Generator::get_offset() const { return offset_; }
// LITERALINCLUDE END: generator-seed-and-offset

// LITERALINCLUDE START: generator-state
c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  const at::TensorBase state = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte);
  const std::array<uint64_t, 2> words{seed_, offset_};
  std::memcpy(state.mutable_data_ptr(), words.data(), kStateBytes);
  return state.getIntrusivePtr();
}

void Generator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(state.layout() == at::kStrided && state.device().is_cpu() && state.dtype() == at::kByte &&
                  state.is_contiguous() && state.numel() == static_cast<int64_t>(kStateBytes),
              "openreg: the state of a generator is a contiguous CPU tensor of ", kStateBytes,
              " elements of torch.uint8, got ", state.numel(), " elements of torch.",
              c10::getDtypeNames(c10::typeMetaToScalarType(state.dtype())).first, " on ", state.device());
  std::array<uint64_t, 2> words{};
  std::memcpy(words.data(), state.data(), kStateBytes);
  seed_ = words[0];
  offset_ = words[1];
}
// LITERALINCLUDE END: generator-state

std::pair<uint64_t, uint64_t> Generator::reserve(uint64_t count) {
  const uint64_t first = offset_;
  offset_ += count;
  return {seed_, first};
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device_.index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

// LITERALINCLUDE START: generator-default-registry
const at::Generator& default_generator(c10::DeviceIndex index) {
  static const std::vector<at::Generator> generators = [] {
    std::vector<at::Generator> all;
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      all.push_back(new_generator(device));
      all.back().seed();
    }
    return all;
  }();
  return generators[resolve_device_index(index)];
}

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(resolve_device_index(index));
}
// LITERALINCLUDE END: generator-default-registry

}  // namespace openreg
