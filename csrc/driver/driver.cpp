// Starts the driver, looks up handles, and implements the functions that enumerate and select devices.
#include "driver.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "device_code.h"
#include "error.h"
#include "fault_handler.h"
#include "process.h"

namespace openreg::driver {
namespace {

constexpr int kMajor = 1;
constexpr int kMinor = 0;

std::atomic<Driver*> g_driver{nullptr};
std::atomic<bool> g_forked{false};
thread_local int t_device = 0;

// LITERALINCLUDE START: memory-driver-start
orError_t make_driver(const Config& config, std::unique_ptr<Driver>* made) {
  const auto no_memory = [] {
    return fail(orErrorInitialization, "the host has no memory for the driver's own records");  // NOT PROVEN: as below
  };
  try {
    auto started = std::make_unique<Driver>();
    if (const orError_t error = started->space.reserve(config.device_count, config.device_memory)) return error;
    for (int index = 0; index < config.device_count; ++index) {
      Device& device = started->devices.emplace_back(index, config.launch, started->space);
      if (!device.begin()) return no_memory();
    }
    *made = std::move(started);
    return orSuccess;
  } catch (const std::bad_alloc&) {  // NOT PROVEN: needs a host that is out of memory
    return no_memory();  // NOT PROVEN: needs a host that is out of memory
  }
}

orError_t start_once(Driver** driver) {
  const std::lock_guard lock(start_mutex());
  *driver = g_driver.load();
  if (*driver != nullptr) return orSuccess;

  Config config;
  if (const orError_t error = read_config(&config)) return error;
  std::unique_ptr<Driver> started;
  if (const orError_t error = make_driver(config, &started)) return error;
  if (!watch_process_end()) return fail(orErrorInitialization, "the host refused another function to call at exit");
  // Last, because it keeps a pointer to the address space, and nothing after it fails.
  if (const orError_t error = explain_device_faults(started->space)) return error;
  *driver = started.release();  // never destroyed: see process.cpp
  g_driver.store(*driver);
  return orSuccess;
}
// LITERALINCLUDE END: memory-driver-start

}  // namespace

// LITERALINCLUDE START: memory-driver-get
orError_t get_driver(Driver** driver) {
  if (inside_kernel()) {
    return fail(orErrorNotSupported,
                "called by a kernel, which could wait for itself; a kernel may call orGetHostAlias, "
                "orPointerGetAttributes and the functions that describe devices and streams");
  }
  return get_driver_in_kernel(driver);
}

orError_t get_driver_in_kernel(Driver** driver) {
  *driver = g_driver.load(std::memory_order_acquire);
  if (*driver != nullptr) [[likely]]
    return orSuccess;
  if (g_forked.load()) {
    return fail(orErrorForked,
                "this process was forked after its parent had initialized the driver, and cannot use the devices; "
                "initialize the driver after the fork only, or start the process with the 'spawn' start method");
  }
  return start_once(driver);
}
// LITERALINCLUDE END: memory-driver-get

Driver* started_driver() noexcept { return g_driver.load(); }

// LITERALINCLUDE START: memory-device-by-number
void cut_off_driver() noexcept {
  if (g_driver.exchange(nullptr) != nullptr) g_forked.store(true);
}

orError_t Driver::find_device(int index, Device** device) {
  if (index < 0 || static_cast<size_t>(index) >= devices.size()) {
    return fail(orErrorInvalidDevice, "device %d does not exist; valid are 0 to %zu", index, devices.size() - 1);
  }
  *device = &devices[static_cast<size_t>(index)];
  return orSuccess;
}

Device& Driver::current_device() { return devices[static_cast<size_t>(t_device)]; }

orError_t get_current_device(Device** device) {
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  *device = &driver->current_device();
  return (*device)->failure.refuse();
}

orError_t get_device_in_kernel(int index, Device** device) {
  Driver* driver = nullptr;
  if (const orError_t error = get_driver_in_kernel(&driver)) return error;
  return driver->find_device(index, device);
}
// LITERALINCLUDE END: memory-device-by-number

// LITERALINCLUDE START: stream-lookup
orError_t Driver::find_stream(orStream_t handle, StreamRef* ref) {
  if (handle == nullptr) {
    ref->stream = current_device().streams.at(0);
    ref->generation = ref->stream->generation.load();
    return orSuccess;
  }
  const Handle parts = Handle::unpack(reinterpret_cast<uint64_t>(handle));
  if (parts.kind == HandleKind::kStream && static_cast<size_t>(parts.device) < devices.size()) {
    Stream* const stream = devices[static_cast<size_t>(parts.device)].streams.at(parts.index);
    if (stream != nullptr && stream->generation.load() == parts.generation && parts.generation % 2 == 1) {
      *ref = StreamRef{stream, parts.generation};
      return orSuccess;
    }
  }
  return fail(orErrorInvalidHandle, "%p is not a stream, or no longer", static_cast<void*>(handle));
}

orError_t Driver::find_event(orEvent_t handle, EventRef* ref) {
  const Handle parts = Handle::unpack(reinterpret_cast<uint64_t>(handle));
  if (parts.kind == HandleKind::kEvent && static_cast<size_t>(parts.device) < devices.size()) {
    Device& device = devices[static_cast<size_t>(parts.device)];
    Event* const event = device.events.at(parts.index);
    if (event != nullptr && event->generation.load() == parts.generation && parts.generation % 2 == 1) {
      *ref = EventRef{event, &device, parts.index, parts.generation};
      return orSuccess;
    }
  }
  return fail(orErrorInvalidHandle, "%p is not an event, or no longer", static_cast<void*>(handle));
}

orError_t get_stream(orStream_t handle, StreamRef* ref) {
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  return driver->find_stream(handle, ref);
}

orError_t get_stream_in_kernel(orStream_t handle, StreamRef* ref) {
  Driver* driver = nullptr;
  if (const orError_t error = get_driver_in_kernel(&driver)) return error;
  return driver->find_stream(handle, ref);
}

orError_t get_event(orEvent_t handle, EventRef* ref) {
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  return driver->find_event(handle, ref);
}
// LITERALINCLUDE END: stream-lookup

}  // namespace openreg::driver

using namespace openreg::driver;

// LITERALINCLUDE START: memory-devices-count
orError_t orDriverGetVersion(int* version) {
  const Call call("orDriverGetVersion");
  if (version == nullptr) return fail(orErrorInvalidValue, "version is null");
  *version = 1000 * kMajor + kMinor;
  return orSuccess;
}

orError_t orGetDeviceCount(int* count) {
  const Call call("orGetDeviceCount");
  if (count == nullptr) return fail(orErrorInvalidValue, "count is null");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver_in_kernel(&driver)) return error;
  *count = static_cast<int>(driver->devices.size());
  return orSuccess;
}
// LITERALINCLUDE END: memory-devices-count

// LITERALINCLUDE START: memory-devices-current
orError_t orGetDevice(int* device) {
  if (device == nullptr) {
    const Call call("orGetDevice");
    return fail(orErrorInvalidValue, "device is null");
  }
  *device = t_device;
  return orSuccess;
}

orError_t orSetDevice(int device) {
  const Call call("orSetDevice");
  Device* found = nullptr;
  if (const orError_t error = get_device_in_kernel(device, &found)) return error;
  t_device = found->index;
  return orSuccess;
}
// LITERALINCLUDE END: memory-devices-current

// LITERALINCLUDE START: memory-devices-properties
orError_t orGetDeviceProperties(orDeviceProp* properties, int device) {
  const Call call("orGetDeviceProperties");
  if (properties == nullptr) return fail(orErrorInvalidValue, "properties is null");
  Device* found = nullptr;
  if (const orError_t error = get_device_in_kernel(device, &found)) return error;
  *properties = orDeviceProp{
      .name = "openreg simulated accelerator",
      .driver = "simulated",
      .total_memory = found->memory.total_bytes(),
      .max_allocation = found->memory.total_bytes(),
      .allocation_alignment = DeviceMemory::kAlignment,
      .local_memory = openreg::device_code::kLocalMemory,
      .major = kMajor,
      .minor = kMinor,
      .compute_units = 1,  // a kernel runs on one thread
      .max_group_size = openreg::device_code::kMaxGroupSize,
      .simd_width = 1,
      .has_unified_memory = 0,
      .has_fp16 = 1,
      .has_bf16 = 0,
      .has_fp64 = 1,
      .uuid = {'s', 'i', 'm', 'u', 'l', 'a', 't', 'e', 'd', ' ', 'd', 'e', 'v', '.', ' ',
               static_cast<unsigned char>(found->index)},
  };
  return orSuccess;
}
// LITERALINCLUDE END: memory-devices-properties
