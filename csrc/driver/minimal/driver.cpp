// Starts the driver, and implements what its functions share.
#include "driver.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "config.h"

namespace openreg::driver::minimal {
namespace {

Driver* g_driver = nullptr;  // guarded by mutex(); never destroyed: other libraries' static destructors may call it
std::atomic<bool> g_forked{false};

// LITERALINCLUDE START: minimal-fork
// A child gets a copy of this driver's memory, which on hardware it would share with its parent. The lock is held
// across the fork, so that in the child no missing thread holds it.
void before_fork() { mutex().lock(); }
void after_fork_in_parent() { mutex().unlock(); }
void after_fork_in_child() {
  if (g_driver != nullptr) g_forked.store(true);
  mutex().unlock();
}

[[gnu::constructor]] void watch_forks() {
  if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) std::abort();
}
// LITERALINCLUDE END: minimal-fork

// LITERALINCLUDE START: minimal-start
orError_t start(Driver* driver) {
  Config config;
  if (const orError_t error = read_config(&config)) return error;
  if (config.launch == LaunchMode::kAsync) {
    return fail(orErrorInitialization,
                "OPENREG_LAUNCH is 'async', but this driver queues nothing; valid are auto and inline");
  }
  driver->devices.reserve(static_cast<size_t>(config.device_count));  // below, none is left out of the list
  for (int index = 0; index < config.device_count; ++index) {
    // Pages that were never written cost nothing.
    void* const bytes =
        mmap(nullptr, config.device_memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED) {
      return fail(orErrorInitialization,  // NOT PROVEN: needs such a host
                  "the host has no %zu bytes for the memory of device %d (%s)",  // NOT PROVEN: as above
                  config.device_memory, index, std::strerror(errno));  // NOT PROVEN: as above
    }
    driver->devices.push_back({static_cast<std::byte*>(bytes), config.device_memory, {}});
    driver->streams.emplace(++driver->last_handle, Stream{index});
  }
  return orSuccess;
}
// LITERALINCLUDE END: minimal-start

}  // namespace

std::mutex& mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

bool is_forked() noexcept { return g_forked.load(); }

orError_t refuse_forked() {
  return fail(orErrorForked,
              "this process was forked after its parent had initialized the driver, and cannot use the devices; "
              "initialize the driver after the fork only, or start the process with the 'spawn' start method");
}

orError_t get_driver(Driver** driver) {
  if (g_driver == nullptr) {
    auto* const started = new (std::nothrow) Driver;
    if (started == nullptr) return fail(orErrorInitialization, "the host has no memory for the driver's own records");
    orError_t error = orSuccess;
    try {
      error = start(started);
    } catch (const std::bad_alloc&) {
      error = fail(orErrorInitialization, "the host has no memory for the driver's own records");
    }
    if (error != orSuccess) {
      for (const Device& device : started->devices) munmap(device.bytes, device.total);
      delete started;
      return error;
    }
    g_driver = started;
  }
  *driver = g_driver;
  return orSuccess;
}

int& current_device() noexcept {
  static thread_local int device = 0;
  return device;
}

orError_t Driver::find_device(int index, Device** device) {
  if (index < 0 || static_cast<size_t>(index) >= devices.size()) {
    return fail(orErrorInvalidDevice, "device %d does not exist; valid are 0 to %zu", index, devices.size() - 1);
  }
  *device = &devices[static_cast<size_t>(index)];
  return orSuccess;
}

orError_t Driver::find_stream(orStream_t handle, Stream** stream) {
  const uint64_t number = handle != nullptr ? number_of(handle) : static_cast<uint64_t>(current_device()) + 1;
  const auto found = streams.find(number);
  if (found == streams.end()) {
    return fail(orErrorInvalidHandle, "%p is not a stream, or no longer", static_cast<void*>(handle));
  }
  *stream = &found->second;
  return orSuccess;
}

}  // namespace openreg::driver::minimal
