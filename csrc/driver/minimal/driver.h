// A driver in which all work is done when the call returns: the least that the backend runs on.
//
// Its device is a piece of memory behind addresses that mean nothing to the host. It has no kernels but "sleep", and
// one lock for everything.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "../error.h"
#include "../openreg.h"

namespace openreg::driver::minimal {

using Clock = std::chrono::steady_clock;

// LITERALINCLUDE START: minimal-records
struct Device {
  std::byte* bytes = nullptr;  // where the driver reaches the memory; nobody else learns of it
  size_t total = 0;
  std::map<size_t, size_t> allocations;  // the bytes asked for, by their offset in the memory
};
struct Stream {
  int device;
};
struct Event {
  int device;
  bool timing;
  std::optional<Clock::time_point> recorded;
};

// Handles are numbers that are never used again, so that a dead one is recognised.
struct Driver {
  std::vector<Device> devices;
  std::map<uintptr_t, size_t> pinned;
  std::map<uint64_t, Stream> streams;  // the default stream of device n is number n + 1
  std::map<uint64_t, Event> events;
  uint64_t last_handle = 0;

  orError_t find_device(int index, Device** device);
  // Null is the default stream of the calling thread's device.
  orError_t find_stream(orStream_t handle, Stream** stream);
};
// LITERALINCLUDE END: minimal-records

constexpr int kMajor = 1;
constexpr int kMinor = 0;
constexpr size_t kAlignment = 512;

// The device of the calling thread.
int& current_device() noexcept;

// LITERALINCLUDE START: minimal-addresses
// A device address is a number: this tag, the device from bit 40 on, and the offset in its memory. No processor has
// memory there, so that host code which uses one faults; adding to it, as views do, stays within the device.
constexpr uintptr_t kTag = uintptr_t{0x00d0} << 48;
constexpr unsigned kDeviceShift = 40;

struct Location {
  int device;
  size_t offset;
};

// Where an address lies; nothing for any that is not of a device.
std::optional<Location> locate(const Driver& driver, const void* pointer);
void* address_of(Location location);
// LITERALINCLUDE END: minimal-addresses

// The start of the allocation of a device that the offset lies in, or the error.
orError_t find_allocation(const Device& device, Location location, size_t* start, size_t* bytes);

// Starts the driver at the first call. Refuses in a forked child. Requires: mutex() is held.
orError_t get_driver(Driver** driver);
std::mutex& mutex();
// Whether the driver is that of the parent of this process. Takes no lock.
[[nodiscard]] bool is_forked() noexcept;
orError_t refuse_forked();

// LITERALINCLUDE START: minimal-call
// What every function of the interface that needs a device has in common. `body` is called with the driver, alone.
template <class Body>
orError_t call(const char* function, Body body) {
  const Call named(function);
  if (is_forked()) return refuse_forked();
  const std::lock_guard lock(mutex());
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  try {
    return body(*driver);
  } catch (const std::bad_alloc&) {
    return fail(orErrorMemoryAllocation, "the host has no memory left");  // NOT PROVEN: takes such a host
  }
}
// LITERALINCLUDE END: minimal-call

template <class Handle>
uint64_t number_of(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

}  // namespace openreg::driver::minimal
