// A driver that finishes all work before each call returns: the smallest that the backend runs on.
//
// Its device is a block of memory behind addresses that mean nothing to the host. It has one kernel, "sleep", and one
// lock for everything.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "error.h"
#include "openreg.h"

namespace openreg::driver::minimal {

using Clock = std::chrono::steady_clock;

// LITERALINCLUDE START: minimal-records
struct Device {
  std::byte* bytes = nullptr;  // where the driver accesses the memory; never exposed
  size_t total = 0;
  std::map<size_t, size_t> allocations;  // requested bytes, by their offset in the memory
};
struct Stream {
  int device;
};
struct Event {
  int device;
  bool timing;
  std::optional<Clock::time_point> recorded;
};

// Handles are numbers that are never reused, so that a stale one is recognized.
struct Driver {
  std::vector<Device> devices;
  std::map<uintptr_t, size_t> pinned;
  std::map<uint64_t, Stream> streams;  // the default stream of device n is number n + 1
  std::map<uint64_t, Event> events;
  uint64_t last_handle = 0;

  orError_t find_device(int index, Device** device);
  // Null is the default stream of the calling thread's current device.
  orError_t find_stream(orStream_t handle, Stream** stream);
};
// LITERALINCLUDE END: minimal-records

constexpr int kMajor = 1;
constexpr int kMinor = 0;
constexpr size_t kAlignment = 512;

// The current device of the calling thread.
int& current_device() noexcept;

// LITERALINCLUDE START: minimal-addresses
// A device address is a number: this tag, the device from bit 40 on, and the offset in its memory. Linux puts
// nothing there unless a program asks for that address, so host code that uses one faults; arithmetic on it, as views
// do, stays within the device.
constexpr uintptr_t kTag = uintptr_t{0x00d0} << 48;
constexpr unsigned kDeviceShift = 40;

struct Location {
  int device;
  size_t offset;
};

// The location of a device address; empty for any other address.
std::optional<Location> locate(const Driver& driver, const void* pointer);
void* address_of(Location location);
// LITERALINCLUDE END: minimal-addresses

// Finds the start and size of the allocation that contains the location.
orError_t find_allocation(const Device& device, Location location, size_t* start, size_t* bytes);

// Gets the driver, and starts it on the first call. Requires: mutex() is held; is_forked() is false.
orError_t get_driver(Driver** driver);
std::mutex& mutex();
// Whether this process is a forked child that inherited the driver. Takes no lock.
[[nodiscard]] bool is_forked() noexcept;
orError_t refuse_forked();

// LITERALINCLUDE START: minimal-call
// The common part of every interface function that needs a device. Calls `body` with the driver, under the lock.
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
    return fail(orErrorMemoryAllocation, "the host has no memory left");  // NOT PROVEN: needs such a host
  }
}
// LITERALINCLUDE END: minimal-call

template <class Handle>
uint64_t number_of(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

}  // namespace openreg::driver::minimal
