// The running driver: its address space and devices, and the lookups that the interface functions share.
#pragma once

#include <cstdint>
#include <deque>

#include "address_space.h"
#include "config.h"
#include "device.h"
#include "event.h"
#include "openreg.h"
#include "stream.h"

namespace openreg::driver {

// LITERALINCLUDE START: stream-references
// A handle that was looked up. Code that changes the object compares the generation again under the object's lock.
struct StreamRef {
  Stream* stream = nullptr;
  uint64_t generation = 0;
};
struct EventRef {
  Event* event = nullptr;
  Device* device = nullptr;
  uint32_t index = 0;
  uint64_t generation = 0;
};
// LITERALINCLUDE END: stream-references

// LITERALINCLUDE START: memory-driver-parts
struct Driver {
  AddressSpace space;
  std::deque<Device> devices;

  orError_t find_device(int index, Device** device);
  // The current device of the calling thread.
  Device& current_device();
  // Null is the default stream of the current device.
  orError_t find_stream(orStream_t handle, StreamRef* ref);
  orError_t find_event(orEvent_t handle, EventRef* ref);

  // Calls function(stream) for every stream, on any device, that has ever had a worker thread. Thread: lock-free.
  template <class Function>
  void for_each_served_stream(Function function) {
    for (Device& device : devices) {
      for (Stream* stream = device.first_served(); stream != nullptr; stream = stream->next_served()) function(*stream);
    }
  }
};
// LITERALINCLUDE END: memory-driver-parts

// Gets the driver, and starts it on the first call. Fails in a child forked after the start, and inside a kernel, which
// would deadlock if it waited for the device.
// Thread: takes no lock once the driver has started or was cut off by a fork.
orError_t get_driver(Driver** driver);
// The same for the functions that a kernel may call, which never wait.
orError_t get_driver_in_kernel(Driver** driver);

// The first step of most interface functions: gets the driver, and looks up what the argument names. get_current_device
// also fails after a device failure.
orError_t get_current_device(Device** device);
orError_t get_stream(orStream_t handle, StreamRef* ref);
orError_t get_event(orEvent_t handle, EventRef* ref);
orError_t get_device_in_kernel(int index, Device** device);
orError_t get_stream_in_kernel(orStream_t handle, StreamRef* ref);

// Null before the start and in a forked child.
Driver* started_driver() noexcept;
// Makes get_driver fail if the driver had started. Called in a forked child.
void cut_off_driver() noexcept;

}  // namespace openreg::driver
