// Starts the driver, and looks up handles and addresses.
#include "driver.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "platform.h"

namespace openreg::driver::opencl {
namespace {

std::atomic<Driver*> g_driver{nullptr};  // never destroyed: see process.cpp
std::atomic<bool> g_forked{false};
std::atomic<int> g_highest_priority{kLowestPriority};

// LITERALINCLUDE START: opencl-start
orError_t add_device(Driver& driver, const Platform& platform, cl_device_id id, const Config& config) {
  size_t memory = device_info<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE) / platform.shares;
  if (std::getenv("OPENREG_DEVICE_MEMORY") != nullptr) memory = std::min(memory, config.device_memory);
  const auto index = static_cast<int>(driver.devices.size());
  auto device = std::make_unique<Device>(index, id, driver.context, config.launch, Arena::round_down(memory));
  ClQueue queue;
  if (const orError_t error = device->create_queue(kLowestPriority, &queue)) return error;
  if (const orError_t error = device->choose_mark()) return error;
  const uint64_t number = default_stream_number(index);
  driver.streams.add(number, std::make_shared<Stream>(*device, number, kLowestPriority, std::move(queue)));
  driver.devices.push_back(std::move(device));
  return orSuccess;
}

orError_t start(Driver& driver) {
  Config config;
  if (const orError_t error = read_config(&config)) return error;
  Platform platform;
  if (const orError_t error = find_platform(config, &platform)) return error;
  driver.platform = platform.name;
  const cl_context_properties of_platform[] = {CL_CONTEXT_PLATFORM,
                                               reinterpret_cast<cl_context_properties>(platform.id), 0};
  cl_int status = CL_SUCCESS;
  driver.context = clCreateContext(of_platform, static_cast<cl_uint>(platform.devices.size()), platform.devices.data(),
                                   nullptr, nullptr, &status);
  if (status != CL_SUCCESS) return fail_cl(status, "clCreateContext");
  bool priorities = true;
  for (cl_device_id id : platform.devices) {
    if (const orError_t error = add_device(driver, platform, id, config)) return error;
    priorities = priorities && has_extension(id, "cl_khr_priority_hints");
  }
  driver.highest_priority = priorities ? kLowestPriority - 1 : kLowestPriority;
  if (!watch_process_end()) return fail(orErrorInitialization, "the host refused another function to call at exit");
  return orSuccess;
}
// LITERALINCLUDE END: opencl-start

// While it lives, the calling thread is starting the driver.
struct Starting {
  Starting() { starting() = true; }
  Starting(const Starting&) = delete;
  Starting& operator=(const Starting&) = delete;
  ~Starting() { starting() = false; }
};

orError_t start_once(Driver** driver) {
  const std::lock_guard lock(start_mutex());
  *driver = g_driver.load();
  if (*driver != nullptr) return orSuccess;
  const Starting mark;
  try {
    auto started = std::make_unique<Driver>();
    if (const orError_t error = start(*started)) {
      if (started->context != nullptr) clReleaseContext(started->context);
      return error;
    }
    g_highest_priority.store(started->highest_priority);
    *driver = started.release();
    g_driver.store(*driver);
    return orSuccess;
  } catch (const std::bad_alloc&) {
    return fail(orErrorInitialization, "the host has no memory for the driver's own records");
  }
}

}  // namespace

orError_t get_driver(Driver** driver) {
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

orError_t refuse_in_kernel() {
  return fail(orErrorNotSupported,
              "called by a kernel, which could wait for itself; a kernel may call orGetHostAlias, "
              "orPointerGetAttributes and the functions that describe devices and streams");
}

Driver* started_driver() noexcept { return g_driver.load(); }

bool is_forked() noexcept { return g_forked.load(); }

void cut_off_driver() noexcept {
  if (g_driver.exchange(nullptr) != nullptr) g_forked.store(true);
}

int known_highest_priority() noexcept { return g_highest_priority.load(); }

int& current_device() noexcept {
  static thread_local int device = 0;
  return device;
}

bool& inside_kernel() noexcept {
  static thread_local bool inside = false;
  return inside;
}

orError_t Driver::find_device(int index, Device** device) {
  if (index < 0 || static_cast<size_t>(index) >= devices.size()) {
    return fail(orErrorInvalidDevice, "device %d does not exist; valid are 0 to %zu", index, devices.size() - 1);
  }
  *device = devices[static_cast<size_t>(index)].get();
  return orSuccess;
}

Device& Driver::current() { return *devices[static_cast<size_t>(current_device())]; }

Stream& Driver::default_stream(const Device& device) {
  return *streams.find(default_stream_number(device.index));  // which lives as long as the driver
}

orError_t Driver::find_stream(orStream_t handle, std::shared_ptr<Stream>* stream) {
  *stream = streams.find(handle != nullptr ? number_of(handle) : default_stream_number(current_device()));
  if (*stream != nullptr) return orSuccess;
  return fail(orErrorInvalidHandle, "%p is not a stream, or no longer", static_cast<void*>(handle));
}

orError_t Driver::find_event(orEvent_t handle, std::shared_ptr<Event>* event) {
  *event = events.find(number_of(handle));
  if (*event != nullptr) return orSuccess;
  return fail(orErrorInvalidHandle, "%p is not an event, or no longer", static_cast<void*>(handle));
}

Device* Driver::device_of(const void* pointer, Arena::Place* place, Arena::Block* block) {
  for (const auto& device : devices) {
    *place = device->arena.find(reinterpret_cast<uintptr_t>(pointer), block);
    if (*place != Arena::Place::kElsewhere) return device.get();
  }
  return nullptr;
}

}  // namespace openreg::driver::opencl
