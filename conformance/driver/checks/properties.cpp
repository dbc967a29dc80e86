// What a device says of itself beyond its name: orDeviceProp.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace conformance {
namespace {

using Uuid = std::vector<unsigned char>;

Uuid uuid_of(int device) {
  const orDeviceProp properties = properties_of(device);
  return {std::begin(properties.uuid), std::end(properties.uuid)};
}

bool all_zero(const Uuid& uuid) {
  return std::all_of(uuid.begin(), uuid.end(), [](unsigned char byte) { return byte == 0; });
}

void driver_has_a_name() {
  for (int device = 0; device < device_count(); ++device) {
    orDeviceProp properties;
    std::memset(&properties, 0xff, sizeof(properties));
    ok(driver.orGetDeviceProperties(&properties, device));
    expect(std::memchr(properties.driver, 0, sizeof(properties.driver)) != nullptr && properties.driver[0] != '\0',
           "the name of the driver, zero-terminated, of device " + std::to_string(device), "none");
  }
}

void numbers_are_plausible() {
  for (int device = 0; device < device_count(); ++device) {
    orDeviceProp properties;
    std::memset(&properties, 0xff, sizeof(properties));
    ok(driver.orGetDeviceProperties(&properties, device));
    const std::string of = " of device " + std::to_string(device);
    expect(properties.max_allocation <= properties.total_memory, "a largest allocation" + of + " within its memory",
           std::to_string(properties.max_allocation));
    expect(properties.local_memory <= size_t{1} << 30, "the local memory" + of + ", or 0",
           std::to_string(properties.local_memory));
    for (const auto& [name, number] : {std::pair("compute units", properties.compute_units),
                                       std::pair("work-items in a group", properties.max_group_size),
                                       std::pair("work-items in step", properties.simd_width)}) {
      expect(number >= 0, std::string("the number of ") + name + of + ", or 0", std::to_string(number));
    }
    for (const auto& [name, flag] :
         {std::pair("has_unified_memory", properties.has_unified_memory), std::pair("has_fp16", properties.has_fp16),
          std::pair("has_bf16", properties.has_bf16), std::pair("has_fp64", properties.has_fp64)}) {
      expect(flag == 0 || flag == 1, std::string(name) + of + ", which is 0 or 1", std::to_string(flag));
    }
  }
}

void limits_of_kernels_are_stated() {
  need("modules");
  for (int device = 0; device < device_count(); ++device) {
    const orDeviceProp properties = properties_of(device);
    const std::string of = " of device " + std::to_string(device);
    expect(properties.max_group_size > 0, "the most work-items in a group" + of, "0, although it has modules");
    expect(properties.compute_units > 0, "the compute units" + of, "0, although it has modules");
    expect(properties.simd_width > 0 && properties.simd_width <= properties.max_group_size,
           "the work-items in step" + of + ", no more than a group has", std::to_string(properties.simd_width));
  }
}

void largest_allocation() {
  const orDeviceProp properties = properties_of(0);
  if (properties.max_allocation == 0) not_offered("a largest allocation: max_allocation is 0");
  void* pointer = nullptr;
  const size_t too_much = properties.max_allocation + properties.allocation_alignment;
  refused(orErrorMemoryAllocation, driver.orMalloc(&pointer, too_much),
          std::to_string(too_much) + " bytes, more than max_allocation");
  // Others may use the device, and a driver keeps some of it: not all that is free need be there in one piece.
  size_t free = 0;
  size_t total = 0;
  ok(driver.orMemGetInfo(&free, &total));
  ok(driver.orFree(device_memory(std::min(properties.max_allocation, free / 4 * 3))));
}

void unified_memory_is_shared() {
  if (properties_of(0).has_unified_memory == 0) not_offered("unified memory: has_unified_memory is 0");
  const auto bytes = pattern(4096, 1);
  std::byte* const device = device_memory(bytes.size());
  upload(device, bytes);
  expect_bytes(bytes, std::vector<std::byte>(device, device + bytes.size()), "device memory that the host reads");
  std::memset(device, 7, bytes.size());
  expect_bytes(std::vector<std::byte>(bytes.size(), std::byte{7}), download(device, bytes.size()),
               "device memory that the host wrote");
}

void uuids_differ() {
  need_two_devices();
  for (int device = 0; device < device_count(); ++device) {
    const Uuid uuid = uuid_of(device);
    if (all_zero(uuid)) not_offered("UUIDs: that of device " + std::to_string(device) + " is all zeros");
    for (int other = 0; other < device; ++other) {
      expect(uuid != uuid_of(other), "a UUID of device " + std::to_string(device) + " of its own",
             "that of device " + std::to_string(other));
    }
  }
}

// The UUID of a device, as a process sees it that was forked before the driver was used.
Uuid in_another_process(int device) {
  int ends[2];
  if (pipe(ends) != 0) fail("the host has a pipe", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) fail("the host can fork", std::strerror(errno));
  if (child == 0) {
    orDeviceProp properties{};
    if (driver.orGetDeviceProperties(&properties, device) != orSuccess) std::_Exit(1);
    std::_Exit(write(ends[1], properties.uuid, sizeof(properties.uuid)) == sizeof(properties.uuid) ? 0 : 1);
  }
  close(ends[1]);
  Uuid uuid(sizeof(orDeviceProp::uuid));
  const ssize_t bytes = read(ends[0], uuid.data(), uuid.size());
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]);
  expect(bytes == static_cast<ssize_t>(uuid.size()) && status == 0, "the properties in another process", "none");
  return uuid;
}

void uuid_stays() {
  const Uuid first = in_another_process(0);
  const Uuid second = in_another_process(0);
  if (all_zero(first)) not_offered("UUIDs: that of device 0 is all zeros");
  expect(first == second && first == uuid_of(0), "one UUID of device 0 in three processes", "different ones");
}

constexpr Check kChecks[] = {
    {"properties", "the driver names itself", "get_device_properties(), and every report of a fault",
     driver_has_a_name},
    {"properties", "the numbers are plausible", "a kernel's author reads the limits off get_device_properties()",
     numbers_are_plausible},
    {"properties", "a driver with modules states the limits of kernels", "the size of groups is chosen by them",
     limits_of_kernels_are_stated},
    {"properties", "max_allocation is kept", "the caching allocator asks for no segment that can never be had",
     largest_allocation},
    {"properties", "the host may use unified memory", "a backend without copies between host and device",
     unified_memory_is_shared},
    {"properties", "devices have UUIDs of their own", "a job that is pinned to one of several equal devices",
     uuids_differ},
    {"properties", "a UUID is the same in each process", "the processes of a distributed job tell their devices apart",
     uuid_stays},
};

}  // namespace

std::span<const Check> property_checks() { return kChecks; }

}  // namespace conformance
