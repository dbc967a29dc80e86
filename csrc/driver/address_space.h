// The address ranges of the devices. Each device has an inaccessible range, whose addresses are the device pointers,
// and, at the same distance for all devices, a backing range with the real bytes. A kernel finds the bytes with one
// addition; host code that uses a device pointer faults. Memory that has become accessible is never protected again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "openreg.h"

namespace openreg::driver {

struct Location {
  int device = 0;
  size_t offset = 0;  // bytes from the start of the device's memory
};

class AddressSpace {
 public:
  // Backing memory becomes accessible in pieces of this many bytes.
  static constexpr size_t kSegment = size_t{32} << 20;

  AddressSpace() = default;
  ~AddressSpace();  // runs only if the driver could not start
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Reserves addresses for the devices; no memory is used yet.
  orError_t reserve(int devices, size_t memory_per_device);

  // Backs whole pages with the start of a file, which other processes map as well; and with memory of this process
  // alone again, of zeros. False if the host refuses: then the pages stay shared.
  orError_t share(Location location, size_t bytes, int file) const;
  [[nodiscard]] bool unshare(Location location, size_t bytes) const noexcept;

// LITERALINCLUDE START: memory-locate
  // The location of a device pointer; empty for any other pointer. Lock-free and async-signal-safe.
  [[nodiscard]] std::optional<Location> locate(const void* pointer) const noexcept {
    const uintptr_t from_start = reinterpret_cast<uintptr_t>(pointer) - start_;
    if (from_start >= distance_) return std::nullopt;
    const size_t offset = from_start & ((size_t{1} << stride_bits_) - 1);
    if (offset >= memory_per_device_) return std::nullopt;
    return Location{static_cast<int>(from_start >> stride_bits_), offset};
  }

  // The location whose backing byte is at a host address; empty for any other address. As safe as locate.
  [[nodiscard]] std::optional<Location> locate_backing(const void* address) const noexcept {
    return locate(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(address) - distance_));
  }

  // The device pointer of a location, and the host address of the same byte.
  [[nodiscard]] void* device_pointer(Location location) const noexcept {
    return reinterpret_cast<void*>(start_ + (static_cast<uintptr_t>(location.device) << stride_bits_) +
                                   location.offset);
  }
  [[nodiscard]] std::byte* backing(Location location) const noexcept {
    return static_cast<std::byte*>(device_pointer(location)) + distance_;
  }
// LITERALINCLUDE END: memory-locate

  [[nodiscard]] size_t memory_per_device() const noexcept { return memory_per_device_; }

 private:
  uintptr_t start_ = 0;
  size_t distance_ = 0;  // from a device pointer to its backing byte; also the size of all device ranges together
  unsigned stride_bits_ = 0;
  size_t memory_per_device_ = 0;
};

}  // namespace openreg::driver
