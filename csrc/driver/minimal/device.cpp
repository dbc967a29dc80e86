// The functions that enumerate and select devices.
#include "driver.h"

using namespace openreg::driver::minimal;
using openreg::driver::Call;
using openreg::driver::fail;

orError_t orDriverGetVersion(int* version) {
  const Call named("orDriverGetVersion");
  if (version == nullptr) return fail(orErrorInvalidValue, "version is null");
  *version = 1000 * kMajor + kMinor;
  return orSuccess;
}

orError_t orGetDeviceCount(int* count) {
  return call("orGetDeviceCount", [&](Driver& driver) {
    if (count == nullptr) return fail(orErrorInvalidValue, "count is null");
    *count = static_cast<int>(driver.devices.size());
    return orSuccess;
  });
}

orError_t orGetDevice(int* device) {
  const Call named("orGetDevice");
  if (device == nullptr) return fail(orErrorInvalidValue, "device is null");
  *device = current_device();
  return orSuccess;
}

// LITERALINCLUDE START: minimal-device
orError_t orSetDevice(int device) {
  return call("orSetDevice", [&](Driver& driver) {
    Device* found = nullptr;
    if (const orError_t error = driver.find_device(device, &found)) return error;
    current_device() = device;
    return orSuccess;
  });
}

orError_t orGetDeviceProperties(orDeviceProp* properties, int device) {
  return call("orGetDeviceProperties", [&](Driver& driver) {
    if (properties == nullptr) return fail(orErrorInvalidValue, "properties is null");
    Device* found = nullptr;
    if (const orError_t error = driver.find_device(device, &found)) return error;
    *properties = orDeviceProp{
        .name = "openreg minimal accelerator",
        .driver = "minimal",
        .total_memory = found->total,
        .max_allocation = found->total,
        .allocation_alignment = kAlignment,
        .local_memory = 0,  // it runs no kernels: no groups, no local memory, no dtypes
        .major = kMajor,
        .minor = kMinor,
        .compute_units = 1,
        .max_group_size = 0,
        .simd_width = 0,
        .has_unified_memory = 0,
        .has_fp16 = 0,
        .has_bf16 = 0,
        .has_fp64 = 0,
        .uuid = {'m', 'i', 'n', 'i', 'm', 'a', 'l', ' ', 'd', 'e', 'v', 'i', 'c', 'e', ' ',
                 static_cast<unsigned char>(device)},
    };
    return orSuccess;
  });
}
// LITERALINCLUDE END: minimal-device
