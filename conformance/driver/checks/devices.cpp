// Which devices there are, and which is current.
#include <climits>
#include <cstring>
#include <future>
#include <string>

#include "check.h"

namespace conformance {
namespace {

int current() {
  int device = -1;
  ok(driver.orGetDevice(&device));
  return device;
}

void count_is_stable() {
  const int count = device_count();
  expect(count >= 1 && count <= 127, "1 to 127 devices, for which PyTorch has numbers", std::to_string(count));
  expect_equal(count, device_count(), "the number of devices, asked again");
}

void version_is_positive() {
  int version = 0;
  ok(driver.orDriverGetVersion(&version));
  expect(version >= 1000, "1000 * major + minor, from version 1.0 on", std::to_string(version));
}

void properties_are_filled() {
  for (int device = 0; device < device_count(); ++device) {
    orDeviceProp properties;
    std::memset(&properties, 0xff, sizeof(properties));
    ok(driver.orGetDeviceProperties(&properties, device));
    const std::string of = " of device " + std::to_string(device);
    expect(std::memchr(properties.name, 0, sizeof(properties.name)) != nullptr && properties.name[0] != '\0',
           "a name" + of + ", zero-terminated", "none");
    expect(properties.total_memory != 0 && properties.total_memory != SIZE_MAX, "the bytes of memory" + of,
           std::to_string(properties.total_memory));
    const size_t alignment = properties.allocation_alignment;
    expect(alignment >= 16 && (alignment & (alignment - 1)) == 0,
           "an allocation alignment" + of + " that is a power of two from 16 on", std::to_string(alignment));
    expect(properties.major >= 0 && properties.minor >= 0, "a version" + of, "negative");
  }
}

void starts_at_zero() { expect_equal(0, current(), "the current device of a new process"); }

void current_can_be_set() {
  need_two_devices();
  ok(driver.orSetDevice(1));
  expect_equal(1, current(), "the current device after orSetDevice(1)");
  ok(driver.orSetDevice(0));
  expect_equal(0, current(), "the current device after orSetDevice(0)");
}

void current_belongs_to_the_thread() {
  need_two_devices();
  ok(driver.orSetDevice(1));
  const auto in_thread = [] {
    expect_equal(0, current(), "the current device of a new thread");
    ok(driver.orSetDevice(0));
  };
  std::async(std::launch::async, in_thread).get();
  expect_equal(1, current(), "the current device of the first thread, after another has set its own");
}

void unknown_device_is_refused() {
  orDeviceProp properties;
  orStream_t stream = nullptr;
  for (const int device : {device_count(), -1, INT_MAX, INT_MIN}) {
    const std::string given = "device " + std::to_string(device);
    refused(orErrorInvalidDevice, driver.orSetDevice(device), given);
    refused(orErrorInvalidDevice, driver.orGetDeviceProperties(&properties, device), given);
    refused(orErrorInvalidDevice, driver.orDeviceGetDefaultStream(&stream, device), given);
  }
  expect_equal(0, current(), "the current device after orSetDevice was refused");
}

void idle_device_synchronizes() {
  for (int device = 0; device < device_count(); ++device) {
    ok(driver.orSetDevice(device));
    ok(driver.orDeviceSynchronize());
  }
}

void reset_begins_anew() {
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  ok(driver.orMemGetInfo(&before, &total));
  void* const memory = device_memory(1 << 20);
  orStream_t stream = new_stream();
  orEvent_t event = new_event();
  offered(driver.orDeviceReset(), "a reset of the device");
  ok(driver.orMemGetInfo(&after, &total));
  expect_equal(static_cast<int64_t>(before), static_cast<int64_t>(after), "the free memory after a reset");
  (void)refused_as_freed(driver.orFree(memory), {orErrorInvalidPointer}, "memory from before the reset");
  refused(orErrorInvalidHandle, driver.orStreamSynchronize(stream), "a stream from before the reset");
  refused(orErrorInvalidHandle, driver.orEventQuery(event), "an event from before the reset");
  ok(driver.orStreamSynchronize(default_stream(0)));
}

constexpr Check kChecks[] = {
    {"devices", "there is a device, and their number does not change", "device_count() is asked once and remembered",
     count_is_stable},
    {"devices", "the driver has a version", "nothing; people ask for it when they report a fault", version_is_positive},
    {"devices", "the properties of every device are filled in",
     "get_device_properties(), and kernels that are chosen by alignment", properties_are_filled},
    {"devices", "the first device is current at first", "torch.empty(device='openreg') means openreg:0",
     starts_at_zero},
    {"devices", "the current device can be changed", "every device guard does", current_can_be_set},
    {"devices", "the current device belongs to the thread",
     "a backward pass runs one thread per device, each with its own guard", current_belongs_to_the_thread},
    {"devices", "a device that does not exist is refused", "'cuda:9' is an exception and not device 0",
     unknown_device_is_refused},
    {"devices", "an idle device can be waited for", "torch.accelerator.synchronize() is called at any time",
     idle_device_synchronizes},
    {"devices", "a reset frees the memory and ends streams and events",
     "nothing: a process starts anew instead; tests of the driver do", reset_begins_anew},
};

}  // namespace

std::span<const Check> device_checks() { return kChecks; }

}  // namespace conformance
