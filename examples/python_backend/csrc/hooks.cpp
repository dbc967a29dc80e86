// The hooks, and the generator and pinned-memory allocator that they provide. Called on any thread.
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/alloc_cpu.h>

#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "glue.h"

namespace remote {
namespace {

// LITERALINCLUDE START: remote-generator
// A seed, and how often it has been drawn from: the device generates each operator's numbers from the two.
struct Generator final : c10::GeneratorImpl {
  explicit Generator(c10::DeviceIndex index)
      : c10::GeneratorImpl({kRemote, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override { state = {seed, 0}; }
  uint64_t current_seed() const override { return state[0]; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return current_seed();
  }
  void set_offset(uint64_t offset) override { state[1] = offset; }
  uint64_t get_offset() const override { return state[1]; }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::TensorBase bytes = at::detail::empty_cpu({sizeof state}, at::kByte);
    std::memcpy(bytes.mutable_data_ptr(), state.data(), sizeof state);
    return bytes.getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl& bytes) override {
    TORCH_CHECK(
        bytes.device().is_cpu() && bytes.dtype() == at::kByte && bytes.is_contiguous() && bytes.numel() == sizeof state,
        "remote: the state of a generator is 16 contiguous elements of torch.uint8 on the CPU, got ", bytes.numel(),
        " elements of ", bytes.dtype(), " on ", bytes.device());
    std::memcpy(state.data(), bytes.data(), sizeof state);
  }

 private:
  Generator* clone_impl() const override {
    auto* const copy = new Generator(device_.index());
    copy->state = state;
    return copy;
  }

  std::array<uint64_t, 2> state{c10::default_rng_seed_val, 0};
};
// LITERALINCLUDE END: remote-generator

// LITERALINCLUDE START: remote-pinned
// Host memory that is recorded as pinned. The device cannot access it directly, because its process has an address
// space of its own.
struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* const address = c10::alloc_cpu(bytes);
    const std::lock_guard<std::mutex> lock(mutex);
    blocks[address] = bytes;
    return {address, address, &free, c10::kCPU};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  // There is no cache. A copy sends the values by value, so memory can be reused as soon as it is freed.
  void empty_cache() override {}
  bool record_event(void*, void*, c10::Stream) override { return true; }  // NOT PROVEN: for copies on a stream
  at::HostStats get_stats() override {  // NOT PROVEN: libraries call it
    TORCH_CHECK_NOT_IMPLEMENTED(false, "remote: nobody counts the pinned memory");  // NOT PROVEN: as above
  }
  void reset_accumulated_stats() override { get_stats(); }  // NOT PROVEN: as above
  void reset_peak_stats() override { get_stats(); }  // NOT PROVEN: as above

  static bool contains(const void* address) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto after = blocks.upper_bound(address);
    return after != blocks.begin() &&
           address < static_cast<const char*>(std::prev(after)->first) + std::prev(after)->second;
  }

 private:
  static void free(void* address) {
    const std::lock_guard<std::mutex> lock(mutex);
    blocks.erase(address);
    c10::free_cpu(address);
  }

  inline static std::mutex mutex;
  inline static std::map<const void*, size_t> blocks;
};
PinnedAllocator pinned_allocator;
REGISTER_HOST_ALLOCATOR(kRemote, &pinned_allocator)
// LITERALINCLUDE END: remote-pinned

// The hooks, which the module registers.
struct Hooks final : at::PrivateUse1HooksInterface {
  // LITERALINCLUDE START: remote-hooks-devices
  void init() const override {}
  bool isBuilt() const override { return true; }  // NOT PROVEN: libraries call it
  bool isAvailable() const override { return deviceCount() > 0; }  // NOT PROVEN: as above
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return ask<bool>("is_started", static_cast<int>(index));
  }
  c10::DeviceIndex deviceCount() const override { return guard().deviceCount(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { guard().setDevice({kRemote, index}); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return guard().exchangeDevice({kRemote, index}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }
  c10::Device getDeviceFromPtr(void* address) const override {  // NOT PROVEN: libraries call it, by at::from_blob
    const int index = ask<int>("device_of", reinterpret_cast<uintptr_t>(address));  // NOT PROVEN: as above
    return {kRemote, static_cast<c10::DeviceIndex>(index)};  // NOT PROVEN: as above
  }
  // LITERALINCLUDE END: remote-hooks-devices

  // LITERALINCLUDE START: remote-hooks-memory
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  bool isPinnedPtr(const void* address) const override { return PinnedAllocator::contains(address); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
  // LITERALINCLUDE END: remote-hooks-memory

  // LITERALINCLUDE START: remote-hooks-generators
  // Made when the hooks are registered, so that a fork finds all of them.
  Hooks() {
    for (c10::DeviceIndex device = 0; device < deviceCount(); ++device) {
      generators_.push_back(getNewGenerator(device));
    }
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return generators_.at(index < 0 ? current_device() : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    TORCH_CHECK(index < deviceCount(), "remote:", static_cast<int>(index),
                " does not exist: TORCH_REMOTE_DEVICES sets how many devices there are, now ",
                static_cast<int>(deviceCount()));
    return at::make_generator<Generator>(index < 0 ? current_device() : index);
  }
  // LITERALINCLUDE END: remote-hooks-generators

 private:
  std::vector<at::Generator> generators_;  // the default one of each device

  static const c10::impl::DeviceGuardImplInterface& guard() { return *c10::impl::getDeviceGuardImpl(kRemote); }
};

}  // namespace

}  // namespace remote
