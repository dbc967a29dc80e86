// Finds the platform and its devices, and splits a CPU into several.
#include "platform.h"

#include <algorithm>
#include <cstdlib>

namespace openreg::driver::opencl {
namespace {

std::vector<cl_platform_id> platforms() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return {};  // the loader may find none
  std::vector<cl_platform_id> found(count);
  if (clGetPlatformIDs(count, found.data(), nullptr) != CL_SUCCESS) return {};
  return found;
}

// LITERALINCLUDE START: opencl-usable
// Device addresses must support arithmetic, which requires shared virtual memory (OpenCL 2.0).
bool is_usable(cl_device_id device) {
  const auto svm = device_info<cl_device_svm_capabilities>(device, CL_DEVICE_SVM_CAPABILITIES);
  return (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0 &&
         device_info<cl_bool>(device, CL_DEVICE_AVAILABLE) != CL_FALSE &&
         device_info<cl_uint>(device, CL_DEVICE_ADDRESS_BITS) == 64;
}

std::vector<cl_device_id> usable_devices(cl_platform_id platform, cl_device_type type) {
  cl_uint count = 0;
  if (clGetDeviceIDs(platform, type, 0, nullptr, &count) != CL_SUCCESS) return {};
  std::vector<cl_device_id> found(count);
  if (clGetDeviceIDs(platform, type, count, found.data(), nullptr) != CL_SUCCESS) return {};
  std::erase_if(found, [](cl_device_id device) { return !is_usable(device); });
  return found;
}
// LITERALINCLUDE END: opencl-usable

constexpr cl_device_type kOwnMemory = CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR;

std::string list_names(const std::vector<cl_platform_id>& ids) {
  std::string names;
  for (cl_platform_id id : ids) names += (names.empty() ? "'" : ", '") + platform_name(id) + "'";
  return names.empty() ? "none" : names;
}

orError_t choose(const std::vector<cl_platform_id>& ids, cl_platform_id* chosen) {
  if (const char* const wanted = std::getenv("OPENREG_OPENCL_PLATFORM")) {
    const auto named =
        std::ranges::find_if(ids, [&](auto id) { return platform_name(id).find(wanted) != std::string::npos; });
    if (named == ids.end()) {
      return fail(orErrorInitialization,
                  "OPENREG_OPENCL_PLATFORM is '%s', which is part of no platform's name; the platforms here: %s",
                  wanted, list_names(ids).c_str());
    }
    *chosen = *named;
    return orSuccess;
  }
  for (const cl_device_type type : {kOwnMemory, cl_device_type{CL_DEVICE_TYPE_CPU}}) {
    const auto found = std::ranges::find_if(ids, [&](auto id) { return !usable_devices(id, type).empty(); });
    if (found == ids.end()) continue;
    *chosen = *found;
    return orSuccess;
  }
  return fail(orErrorInitialization,
              "no OpenCL platform has a device with coarse-grained shared virtual memory; the platforms here: %s",
              list_names(ids).c_str());
}

// LITERALINCLUDE START: opencl-split
// Requires: the processor has at least as many compute units as parts.
orError_t split(cl_device_id processor, size_t parts, std::vector<cl_device_id>* devices) {
  const size_t each = device_info<cl_uint>(processor, CL_DEVICE_MAX_COMPUTE_UNITS, 1) / parts;
  const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY,
                                                  static_cast<cl_device_partition_property>(each), 0};
  cl_uint count = 0;
  cl_int status = clCreateSubDevices(processor, equally, 0, nullptr, &count);
  if (status != CL_SUCCESS) return fail_cl(status, "clCreateSubDevices");
  devices->resize(count);
  status = clCreateSubDevices(processor, equally, count, devices->data(), nullptr);
  if (status != CL_SUCCESS) return fail_cl(status, "clCreateSubDevices");
  devices->resize(std::min<size_t>(parts, count));  // leftover units may form another part
  return orSuccess;
}
// LITERALINCLUDE END: opencl-split

}  // namespace

orError_t find_platform(const Config& config, Platform* found) {
  const auto ids = platforms();
  if (const orError_t error = choose(ids, &found->id)) return error;
  found->name = platform_name(found->id);
  const bool count_is_set = std::getenv("OPENREG_DEVICE_COUNT") != nullptr;
  const auto wanted = static_cast<size_t>(config.device_count);
  found->devices = usable_devices(found->id, kOwnMemory);
  if (found->devices.empty()) {
    const auto processors = usable_devices(found->id, CL_DEVICE_TYPE_CPU);
    if (processors.empty()) {
      return fail(orErrorInitialization, "'%s' has no device with coarse-grained shared virtual memory",
                  found->name.c_str());
    }
    const auto units = device_info<cl_uint>(processors.front(), CL_DEVICE_MAX_COMPUTE_UNITS, 1);
    found->shares = count_is_set ? wanted : std::min<size_t>(wanted, units);
    if (found->shares > units) {
      return fail(orErrorInitialization,
                  "OPENREG_DEVICE_COUNT is %zu, but '%s' has %u compute units, and each device needs one", wanted,
                  device_text(processors.front(), CL_DEVICE_NAME).c_str(), units);
    }
    found->devices = {processors.front()};
    return found->shares > 1 ? split(processors.front(), found->shares, &found->devices) : orSuccess;
  }
  if (count_is_set && wanted > found->devices.size()) {
    return fail(orErrorInitialization, "OPENREG_DEVICE_COUNT is %zu, but '%s' has only %zu", wanted,
                found->name.c_str(), found->devices.size());
  }
  if (count_is_set) found->devices.resize(wanted);
  return orSuccess;
}

}  // namespace openreg::driver::opencl
