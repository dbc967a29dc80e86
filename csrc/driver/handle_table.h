// Handles, and the tables of streams and events. A handle is not an address: it names a slot in a table and the
// generation of the object there, so that a stale, foreign or made-up handle is recognized without being dereferenced.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

namespace openreg::driver {

// LITERALINCLUDE START: stream-handle
enum class HandleKind : uint64_t {
  kStream = 1,
  kEvent = 2,
  kKernel = 3,
  kModule = 4,
  kFunction = 5,
  kGraph = 6,
  kGraphExec = 7
};

struct Handle {
  HandleKind kind;
  int device;
  uint32_t index;
  uint64_t generation;

  static constexpr uint64_t kLastGeneration = (uint64_t{1} << 36) - 1;

  [[nodiscard]] uint64_t pack() const noexcept {
    return static_cast<uint64_t>(kind) | static_cast<uint64_t>(device) << 4 | uint64_t{index} << 8 | generation << 28;
  }
  static Handle unpack(uint64_t bits) noexcept {
    return Handle{static_cast<HandleKind>(bits & 15), static_cast<int>(bits >> 4 & 15),
                  static_cast<uint32_t>(bits >> 8 & 0xfffff), bits >> 28};
  }
};
// LITERALINCLUDE END: stream-handle

// Objects that are reused but, once the driver has started, never destroyed, so that a thread with a stale handle reads
// valid memory. Each has a `std::atomic<uint64_t> generation`, odd while the object is alive, which its owner
// increments at creation and destruction.
template <class T>
class HandleTable {
 public:
  HandleTable() = default;
  ~HandleTable() {
    for (const std::atomic<T*>& chunk : chunks_) delete[] chunk.load();
  }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // LITERALINCLUDE START: stream-table-use
  static constexpr size_t kCapacity = size_t{1} << 17;

  // An object that is not alive; null if all are, or if the host is out of memory.
  T* take(uint32_t* index) {
    const std::lock_guard lock(mutex_);
    if (free_.empty() && !grow()) return nullptr;
    *index = free_.back();
    free_.pop_back();
    return at(*index);
  }

  // An object that has used up its generations stays unused: its next handle could be that of an earlier one.
  void give_back(uint32_t index) {
    const std::lock_guard lock(mutex_);
    if (at(index)->generation.load() < Handle::kLastGeneration) free_.push_back(index);
  }

  // Thread: lock-free. Null for an index that has no object yet.
  [[nodiscard]] T* at(uint32_t index) const noexcept {
    if (index >= kCapacity) return nullptr;
    T* const chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + index % kChunk;
  }
  // LITERALINCLUDE END: stream-table-use

  // LITERALINCLUDE START: stream-table-alive
  // Calls function(object, index, generation) for every object that is alive.
  template <class Function>
  void for_each_alive(Function function) const {
    for (uint32_t index = 0; T* const object = at(index); ++index) {
      const uint64_t generation = object->generation.load();
      if (generation % 2 == 1) function(*object, index, generation);
    }
  }
  // LITERALINCLUDE END: stream-table-alive

 private:
  // LITERALINCLUDE START: stream-table-grow
  static constexpr size_t kChunk = 64;

  // Requires: mutex_ is held.
  bool grow() {
    const size_t chunk = size_ / kChunk;
    if (chunk == chunks_.size()) return false;
    try {
      // Reserves room for every index, so that neither the code below nor give_back can fail halfway.
      if (free_.capacity() < size_ + kChunk) free_.reserve(2 * (size_ + kChunk));
    } catch (const std::bad_alloc&) {  // NOT PROVEN: tests/stress/memory.cpp takes the host's memory away
      return false;  // NOT PROVEN: as above
    }
    T* const objects = new (std::nothrow) T[kChunk];
    if (objects == nullptr) return false;
    chunks_[chunk].store(objects, std::memory_order_release);
    for (size_t i = kChunk; i > 0; --i) free_.push_back(static_cast<uint32_t>(size_ + i - 1));
    size_ += kChunk;
    return true;
  }
  // LITERALINCLUDE END: stream-table-grow

  std::array<std::atomic<T*>, kCapacity / kChunk> chunks_{};
  std::mutex mutex_;
  std::vector<uint32_t> free_;
  size_t size_ = 0;
};

}  // namespace openreg::driver
