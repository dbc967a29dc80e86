// Random numbers: generators and their registry. Called on any thread; the caller holds a generator's mutex_, and a
// lock of its own guards the state, which generators may share.
#include "runtime/generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <mutex>
#include <vector>

#include "runtime/capture.h"
#include "runtime/captured_draws.h"
#include "runtime/device.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

constexpr size_t kStateBytes = 2 * sizeof(uint64_t);

}  // namespace

// LITERALINCLUDE START: generator-seed-and-offset
Generator::Generator(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(c10::kPrivateUse1, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void Generator::set_current_seed(uint64_t seed) {
  refuse_change_in_capture();
  set_next({seed, 0});
}

uint64_t Generator::current_seed() const { return next().seed; }

uint64_t Generator::seed() {
  const uint64_t seed = c10::detail::getNonDeterministicRandom();
  set_current_seed(seed);
  return seed;
}

void Generator::set_offset(uint64_t offset) {
  refuse_change_in_capture();
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->next.offset = offset;
}

uint64_t Generator::get_offset() const { return next().offset; }
// LITERALINCLUDE END: generator-seed-and-offset

// LITERALINCLUDE START: generator-in-capture
bool Generator::shares_state_with(const Generator& other) const { return state_ == other.state_; }

void Generator::refuse_change_in_capture() const {
  TORCH_CHECK(capture_of(current_stream_handle(device_.index())) == nullptr,
              "openreg: the seed or state of a generator of ", device_,
              " cannot be set while a graph is captured: a replay draws from where the generator is then. Set "
              "it before the capture, or before a replay");
}
// LITERALINCLUDE END: generator-in-capture

// LITERALINCLUDE START: generator-reservation
Positions Generator::next() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->next;
}

void Generator::set_next(Positions next) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->next = next;
}

Positions Generator::reserve(uint64_t count) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const Positions first = state_->next;
  state_->next.offset += count;
  return first;
}
// LITERALINCLUDE END: generator-reservation

// LITERALINCLUDE START: generator-state
c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  const at::TensorBase state = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte);
  const Positions now = next();
  const std::array<uint64_t, 2> words{now.seed, now.offset};
  std::memcpy(state.mutable_data_ptr(), words.data(), kStateBytes);
  return state.getIntrusivePtr();
}

void Generator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(state.layout() == at::kStrided && state.device().is_cpu() && state.dtype() == at::kByte &&
                  state.is_contiguous() && state.numel() == static_cast<int64_t>(kStateBytes),
              "openreg: the state of a generator is a contiguous CPU tensor of ", kStateBytes,
              " elements of torch.uint8, got ", state.numel(), " elements of torch.",
              c10::getDtypeNames(c10::typeMetaToScalarType(state.dtype())).first, " on ", state.device());
  refuse_change_in_capture();
  std::array<uint64_t, 2> words{};
  std::memcpy(words.data(), state.data(), kStateBytes);
  set_next({words[0], words[1]});
}
// LITERALINCLUDE END: generator-state

// LITERALINCLUDE START: generator-shared-state
Generator* Generator::clone_impl() const {
  auto* const copy = new Generator(device_.index());
  copy->set_next(next());
  return copy;
}

c10::intrusive_ptr<c10::GeneratorImpl> Generator::graphsafe_get_state() const {
  auto handle = c10::make_intrusive<Generator>(device_.index());
  handle->state_ = state_;
  return handle;
}

void Generator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) {
  TORCH_CHECK(new_state->device() == device_, "openreg: a generator of ", device_,
              " can share the state of another one of that device, got one of ", new_state->device());
  state_ = static_cast<const Generator&>(*new_state).state_;
}
// LITERALINCLUDE END: generator-shared-state

#if OPENREG_TORCH_AT_LEAST(2, 14)
// LITERALINCLUDE START: generator-philox-state
void Generator::philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset, at::Tensor& intragraph_offset) {
  refuse_in_capture(current_stream_handle(device_.index()), "philox_state() gives numbers to the host");
  constexpr uint64_t kNumbers = 4;  // of 32 bits, which Philox 4x32 gives for each position
  constexpr uint64_t kLast = UINT64_MAX / kNumbers;
  TORCH_CHECK(get_offset() <= kLast, "openreg: philox_state() counts in numbers, ", kNumbers,
              " for each position, so the generator can be at most at position ", kLast, ", it is at ", get_offset(),
              ": move it with set_offset()");
  const Positions reserved = reserve(increment / kNumbers + (increment % kNumbers == 0 ? 0 : 1));
  const auto number = [](uint64_t value) {
    at::Tensor tensor(at::detail::empty_cpu({1}, at::kLong));
    *tensor.mutable_data_ptr<int64_t>() = static_cast<int64_t>(value);
    return tensor;
  };
  seed = number(reserved.seed);
  offset = number(reserved.offset * kNumbers);
  intragraph_offset = number(0);  // other than 0 only while a graph is captured, which is refused above
}
// LITERALINCLUDE END: generator-philox-state
#endif

// LITERALINCLUDE START: generator-default-registry
const at::Generator& default_generator(c10::DeviceIndex index) {
  // First: it raises in a forked child, where the lock of the static variable may be held for ever.
  const c10::DeviceIndex device_index = resolve_device_index(index);
  // Never destroyed: other threads may draw until the process ends.
  static const std::vector<at::Generator>& generators = *new std::vector<at::Generator>([] {
    std::vector<at::Generator> all;
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      all.push_back(new_generator(device));
      all.back().seed();
    }
    return all;
  }());
  return generators[device_index];
}

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(resolve_device_index(index));
}
// LITERALINCLUDE END: generator-default-registry

// LITERALINCLUDE START: generator-positions-of-operator
Positions reserve_positions(const std::optional<at::Generator>& generator, c10::Device device, uint64_t count) {
  const bool is_given = generator.has_value() && generator->defined();
  at::Generator source = is_given ? *generator : default_generator(device.index());
  TORCH_CHECK(source.device() == device, "openreg: an operator on ", device,
              " needs a generator of that device, got one of ", source.device(), ": create it with torch.Generator(\"",
              device, "\")");
  if (const auto capture = capture_of(current_stream_handle(device.index()))) {
    return capture->draws().reserve(source, count);
  }
  const std::lock_guard<std::mutex> lock(source.mutex());
  return source.get<Generator>()->reserve(count);
}
// LITERALINCLUDE END: generator-positions-of-operator

}  // namespace openreg
