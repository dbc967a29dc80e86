// The running driver: the address space and the devices, and how a function of the interface gets at them.
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
// A handle that was looked up. Whoever changes the object compares the generation again under the object's lock.
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
  // The device of the calling thread.
  Device& current_device();
  // Null is the default stream of the current device.
  orError_t find_stream(orStream_t handle, StreamRef* ref);
  orError_t find_event(orEvent_t handle, EventRef* ref);

  // Calls function(stream) for every stream of every device that ever had a thread. Thread: lock-free.
  template <class Function>
  void for_each_served_stream(Function function) {
    for (Device& device : devices) {
      for (Stream* stream = device.first_served(); stream != nullptr; stream = stream->next_served()) function(*stream);
    }
  }
};
// LITERALINCLUDE END: memory-driver-parts

// The driver, started on the first call. Refuses in a forked child of a process that had started it, and inside a
// kernel, where waiting for the device could mean waiting for itself.
// Thread: takes no lock once the driver has started or was cut off by a fork.
orError_t get_driver(Driver** driver);
// The same for the functions that a kernel may call: they never wait.
orError_t get_driver_in_kernel(Driver** driver);

// What most functions of the interface begin with: the driver, and what their argument names. The current device is
// refused after a failure.
orError_t get_current_device(Device** device);
orError_t get_stream(orStream_t handle, StreamRef* ref);
orError_t get_event(orEvent_t handle, EventRef* ref);
orError_t get_device_in_kernel(int index, Device** device);
orError_t get_stream_in_kernel(orStream_t handle, StreamRef* ref);

// Null before the start and in a forked child.
Driver* started_driver() noexcept;
// Makes get_driver refuse, when the driver had started. Called in a forked child.
void cut_off_driver() noexcept;

}  // namespace openreg::driver
