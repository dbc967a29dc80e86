// Kernels that use the memory of another device.
#include <climits>
#include <string>
#include <vector>

#include "module.h"

namespace conformance {
namespace {

bool can_access(int device, int peer, Where where = Where::current()) {
  int answer = -1;
  offered(driver.orDeviceCanAccessPeer(&answer, device, peer), "peer access", where);
  expect(answer == 0 || answer == 1, "0 or 1", std::to_string(answer), where);
  return answer == 1;
}

// Throws NotOffered where device 0 cannot use the memory of device 1.
void need_peers() {
  need("peer access");
  need_two_devices();
  if (!can_access(0, 1)) not_offered("peer access: orDeviceCanAccessPeer says that 0 cannot use the memory of 1");
}

void answers_agree() {
  need("peer access");
  const int count = device_count();
  for (int device = 0; device < count; ++device) {
    expect(can_access(device, device), "access of a device to its own memory", "none");
    for (int peer = 0; peer < device; ++peer) {
      expect(
          can_access(device, peer) == can_access(peer, device),
          "the same answer for devices " + std::to_string(device) + " and " + std::to_string(peer) + " in both orders",
          "different ones");
    }
  }
}

void unknown_devices_are_refused() {
  need("peer access");
  (void)can_access(0, 0);
  int answer = 0;
  for (const int device : {device_count(), -1, INT_MAX}) {
    const std::string given = "device " + std::to_string(device);
    refused(orErrorInvalidDevice, driver.orDeviceCanAccessPeer(&answer, 0, device), given);
    refused(orErrorInvalidDevice, driver.orDeviceCanAccessPeer(&answer, device, 0), given);
    refused(orErrorInvalidDevice, driver.orDeviceEnablePeerAccess(device), given);
    refused(orErrorInvalidDevice, driver.orDeviceDisablePeerAccess(device), given);
  }
}

void twice_is_no_error() {
  need_peers();
  for (int i = 0; i < 2; ++i) ok(driver.orDeviceEnablePeerAccess(1));
  for (int i = 0; i < 2; ++i) ok(driver.orDeviceDisablePeerAccess(1));
}

void impossible_pairs_are_refused() {
  need("peer access");
  need_two_devices();
  if (can_access(0, 1)) not_offered("devices without access to each other: 0 can use the memory of 1");
  refused(orErrorNotSupported, driver.orDeviceEnablePeerAccess(1), "a peer whose memory the device cannot use");
}

void kernel_reads_and_writes() {
  need_peers();
  constexpr int kCount = 1000;
  const orFunction_t add = compile_function(
      "__kernel void add(__global int* out, __global const int* a) {\n"
      "  int i = (int)get_global_id(0);\n"
      "  out[i] = out[i] + a[i];\n"
      "}\n",
      "add");
  std::vector<int> numbers(kCount);
  std::vector<int> doubled(kCount);
  for (int i = 0; i < kCount; ++i) {
    numbers[static_cast<size_t>(i)] = i;
    doubled[static_cast<size_t>(i)] = 2 * i;
  }
  int* const here = device_values(numbers);
  ok(driver.orSetDevice(1));
  int* const there = device_values(numbers);
  ok(driver.orSetDevice(0));
  ok(driver.orDeviceEnablePeerAccess(1));
  launch(add, kCount / 8, 8, Arguments().pointer(here).pointer(there), nullptr);
  ok(driver.orStreamSynchronize(nullptr));
  expect_values(doubled, values_at(here, kCount), "what a kernel of device 0 read from device 1");
  launch(add, kCount / 8, 8, Arguments().pointer(there).pointer(there), nullptr);
  ok(driver.orStreamSynchronize(nullptr));
  expect_values(doubled, values_at(there, kCount), "what a kernel of device 0 wrote to device 1");
}

void copies_work_either_way() {
  need_peers();
  const auto bytes = pattern(70000, 3);
  std::byte* const here = device_memory(bytes.size());
  ok(driver.orSetDevice(1));
  std::byte* const there = device_memory(bytes.size());
  ok(driver.orSetDevice(0));
  upload(here, bytes);
  for (const bool enabled : {true, false}) {
    ok(enabled ? driver.orDeviceEnablePeerAccess(1) : driver.orDeviceDisablePeerAccess(1));
    upload(there, std::vector<std::byte>(bytes.size(), std::byte{0}));
    offered(driver.orMemcpyAsync(there, here, bytes.size(), orMemcpyDeviceToDevice, nullptr),
            "copies from device to device");
    ok(driver.orStreamSynchronize(nullptr));
    expect_bytes(bytes, download(there, bytes.size()),
                 std::string("a copy to a device whose access is ") + (enabled ? "enabled" : "disabled"));
  }
}

constexpr Check kChecks[] = {
    {"peers", "the answers agree", "a plan of who exchanges with whom is made once, from both sides", answers_agree},
    {"peers", "a device that does not exist is refused", "'cuda:9' is an exception and not device 0",
     unknown_devices_are_refused},
    {"peers", "enabling and disabling twice is no error", "several libraries enable access for themselves",
     twice_is_no_error},
    {"peers", "a pair without access is refused", "the backend falls back to copies", impossible_pairs_are_refused},
    {"peers", "a kernel uses the memory of another device", "reductions and exchanges without a copy between",
     kernel_reads_and_writes},
    {"peers", "copies work with and without access", "tensor.to('openreg:1') asks nobody", copies_work_either_way},
};

}  // namespace

std::span<const Check> peer_checks() { return kChecks; }

}  // namespace conformance
