// The running driver: its devices and handles, and the lookups that the interface functions share.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "device.h"
#include "event.h"
#include "hold.h"
#include "modules.h"
#include "opencl.h"
#include "pinned.h"
#include "stream.h"
#include "table.h"

namespace openreg::driver::opencl {

constexpr int kMajor = 1;
constexpr int kMinor = 0;
constexpr int kLowestPriority = 0;

struct Driver {
  std::string platform;
  // One context for all devices: only within a context can a queue wait for events, and memory be copied without the
  // host.
  cl_context context = nullptr;
  int highest_priority = kLowestPriority;
  std::vector<std::unique_ptr<Device>> devices;
  PinnedBlocks pinned;
  Table<Stream> streams;
  Table<Event> events;
  Table<Module> modules;
  Table<Function> functions;
  HostThread sleeps;
  HostThread host_functions;

  // No two objects share a number, whatever their kind.
  uint64_t new_handle() noexcept { return last_handle_.fetch_add(1) + 1; }

  orError_t find_device(int index, Device** device);
  // The current device of the calling thread.
  Device& current();
  Stream& default_stream(const Device& device);
  // Null is the default stream of the current device.
  orError_t find_stream(orStream_t handle, std::shared_ptr<Stream>* stream);
  orError_t find_event(orEvent_t handle, std::shared_ptr<Event>* event);
  // The device that an address belongs to, allocated or not; null for host memory.
  Device* device_of(const void* pointer, Arena::Place* place, Arena::Block* block);

 private:
  std::atomic<uint64_t> last_handle_{1023};  // lower numbers are default streams
};

constexpr uint64_t default_stream_number(int device) { return static_cast<uint64_t>(device) + 1; }

template <class Handle>
uint64_t number_of(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

// The index of the calling thread's current device.
int& current_device() noexcept;
// Whether the calling thread runs a kernel, which must not wait for the device.
bool& inside_kernel() noexcept;

// Gets the driver, and starts it on the first call. Fails in a forked child. Thread: takes no lock once it has started.
orError_t get_driver(Driver** driver);
orError_t refuse_in_kernel();
// Null before the start and in a forked child.
Driver* started_driver() noexcept;
[[nodiscard]] bool is_forked() noexcept;
// Makes get_driver fail if the driver had started. Called in a forked child.
void cut_off_driver() noexcept;
// The result of orDeviceGetStreamPriorityRange, which a forked child may call.
[[nodiscard]] int known_highest_priority() noexcept;

// The common part of the interface functions: sets the name for error texts, gets the driver, and lets no exception
// escape. A kernel may call only those that never wait.
template <class Body>
orError_t call_in_kernel(const char* function, Body body) {
  const Call named(function);
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  try {
    return body(*driver);
  } catch (const std::bad_alloc&) {
    return fail(orErrorMemoryAllocation, "the host has no memory left");
  } catch (const std::system_error& error) {
    return fail(orErrorMemoryAllocation, "the host has no thread left (%s)", error.what());
  } catch (const std::exception& error) {
    return fail(orErrorInvalidValue, "%s", error.what());
  }
}

template <class Body>
orError_t call(const char* function, Body body) {
  if (inside_kernel()) {
    const Call named(function);
    return refuse_in_kernel();
  }
  return call_in_kernel(function, body);
}

}  // namespace openreg::driver::opencl
