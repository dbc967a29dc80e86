// Synchronization and reset of a device, and the functions that enumerate and select devices.
#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "driver.h"
#include "stream.h"

namespace openreg::driver::opencl {

orError_t Device::create_queue(int priority, ClQueue* queue) const {
  const cl_queue_properties with_priority[] = {
      CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, CL_QUEUE_PRIORITY_KHR,
      static_cast<cl_queue_properties>(priority < 0 ? CL_QUEUE_PRIORITY_HIGH_KHR : CL_QUEUE_PRIORITY_MED_KHR), 0};
  const cl_queue_properties without[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
  cl_int status = CL_SUCCESS;
  *queue = ClQueue(clCreateCommandQueueWithProperties(context, id, priority < 0 ? with_priority : without, &status));
  return status == CL_SUCCESS ? orSuccess : fail_cl(status, "clCreateCommandQueueWithProperties");
}

cl_int Device::enqueue_mark(cl_command_queue queue, cl_event* event) const {
  if (fill_for_marks_ == nullptr) return clEnqueueMarkerWithWaitList(queue, 0, nullptr, event);
  constexpr cl_uchar kNothing = 0;
  return clEnqueueSVMMemFill(queue, fill_for_marks_, &kNothing, 1, 1, 0, nullptr, event);
}

// The event of a marker need not have timestamps. If it has none, a fill of one byte replaces the marker.
orError_t Device::choose_mark() {
  ClQueue queue;
  if (const orError_t error = create_queue(kLowestPriority, &queue)) return error;
  cl_event raw = nullptr;
  if (const cl_int status = enqueue_mark(queue.get(), &raw)) return fail_cl(status, "clEnqueueMarkerWithWaitList");
  const ClEvent marker(raw);
  if (const cl_int status = clFinish(queue.get())) return fail_cl(status, "clFinish");
  cl_ulong time = 0;
  if (clGetEventProfilingInfo(raw, CL_PROFILING_COMMAND_END, sizeof(time), &time, nullptr) == CL_SUCCESS && time != 0) {
    return orSuccess;
  }
  fill_for_marks_ = clSVMAlloc(context, CL_MEM_READ_WRITE, 1, 0);
  return fill_for_marks_ != nullptr ? orSuccess : fail(orErrorInitialization, "the device has no byte of memory");
}

orError_t Device::fail_ended_by_reset() const {
  return fail(orErrorLaunchFailure, "orDeviceReset of openreg:%d ended the work that this call waited for", index);
}

// LITERALINCLUDE START: opencl-wait
void wait_for(const ClEvent& event) noexcept {
  if (has_ended(event)) return;
  const cl_event waited = event.get();
  (void)clWaitForEvents(1, &waited);  // collect() finds a command that failed
}

orError_t Device::synchronize_with(const std::function<void()>& wait) {
  if (const orError_t error = failure.refuse()) return error;
  const uint64_t resets = failure.resets();
  wait();
  rest_if_process_is_ending();
  if (resetting_.load() || failure.resets() != resets) return fail_ended_by_reset();
  return failure.report();
}

orError_t Device::synchronize() {
  return synchronize_with([this] { finish(); });
}

orError_t Device::synchronize(Stream& stream, const ClEvent& event) {
  return synchronize_with([&] {
    wait_for(event);
    stream.collect();
  });
}

void Device::finish() {
  std::vector<std::pair<std::shared_ptr<Stream>, ClEvent>> queued;  // not what other threads queue meanwhile
  started_driver()->streams.for_each([&](const std::shared_ptr<Stream>& stream) {
    if (&stream->device() == this) queued.emplace_back(stream, stream->last());
  });
  for (const auto& [stream, event] : queued) {
    wait_for(event);
    stream->collect();
  }
}
// LITERALINCLUDE END: opencl-wait

void Device::store_failure(cl_int status, const char* what) {
  char text[512];
  std::snprintf(text, sizeof(text),
                "%s failed on openreg:%d: %s (%d); the device runs nothing more until orDeviceReset", what, index,
                cl_error_name(status), status);
  found_late.store(failure.resets() + 1);
  failure.store(text);
}

bool Device::works() const {
  ClQueue queue;
  return create_queue(kLowestPriority, &queue) == orSuccess && clFinish(queue.get()) == CL_SUCCESS;
}

orError_t Device::lose() {
  failure.lose("the device did not survive the failure of a kernel: start a new process");
  return failure.report();
}

// LITERALINCLUDE START: opencl-reset
// Queued work runs to completion, because OpenCL cannot cancel it; sleeps are cut short. If the platform's context does
// not survive a failed kernel, the device is lost.
orError_t Device::reset() {
  const std::lock_guard lock(reset_mutex_);
  Driver& driver = *started_driver();
  resetting_.store(true);
  driver.sleeps.hurry();
  driver.host_functions.hurry();
  std::vector<std::shared_ptr<Stream>> streams;
  driver.streams.for_each([&](const std::shared_ptr<Stream>& stream) {
    if (&stream->device() == this) streams.push_back(stream);
  });
  for (const auto& stream : streams) {
    if (stream->number() == default_stream_number(index)) {
      stream->finish();  // it survives
    } else {
      (void)stream->end();
      (void)driver.streams.take(stream->number());
    }
  }
  driver.events.erase_if([this](const Event& event) { return &event.device == this; });
  {
    const std::lock_guard retiring(retired_mutex);
    retired.clear();
  }
  arena.clear();
  failure.clear();
  resetting_.store(false);
  return works() ? orSuccess : lose();
}
// LITERALINCLUDE END: opencl-reset

}  // namespace openreg::driver::opencl

using namespace openreg::driver::opencl;
using openreg::driver::Call;
using openreg::driver::fail;

namespace {

void copy_text(char (&to)[64], const std::string& from) { std::snprintf(to, sizeof(to), "%s", from.c_str()); }

// Each vendor has its own query for how many work-items run in lockstep. For a CPU it is the vector width.
int simd_width(cl_device_id id) {
  constexpr cl_device_info kQuestions[] = {CL_DEVICE_WARP_SIZE_NV, CL_DEVICE_WAVEFRONT_WIDTH_AMD,
                                           CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT};
  for (const cl_device_info question : kQuestions) {
    if (const auto width = device_info<cl_uint>(id, question)) return static_cast<int>(width);
  }
  return 0;
}

// All zeros if the device has none. Sub-devices inherit one; their last byte distinguishes them.
void read_uuid(const Device& device, unsigned char (&uuid)[CL_UUID_SIZE_KHR]) {
  if (!has_extension(device.id, "cl_khr_device_uuid") ||
      clGetDeviceInfo(device.id, CL_DEVICE_UUID_KHR, sizeof(uuid), uuid, nullptr) != CL_SUCCESS) {
    return;
  }
  if (device_info<cl_device_id>(device.id, CL_DEVICE_PARENT_DEVICE) != nullptr) {
    uuid[15] = static_cast<unsigned char>(uuid[15] + device.index);
  }
}

// LITERALINCLUDE START: opencl-properties
orDeviceProp properties_of(const Driver& driver, const Device& device) {
  const cl_device_id id = device.id;
  orDeviceProp found{};
  copy_text(found.name, device_text(id, CL_DEVICE_NAME));
  copy_text(found.driver, "OpenCL: " + driver.platform);
  found.total_memory = device.arena.total_bytes();
  const auto largest = device_info<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, found.total_memory);
  found.max_allocation = std::min<size_t>(found.total_memory, largest - Arena::kAlignment);
  found.allocation_alignment = Arena::kAlignment;
  found.local_memory = device_info<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE);
  (void)std::sscanf(device_text(id, CL_DEVICE_VERSION).c_str(), "OpenCL %d.%d", &found.major, &found.minor);
  found.compute_units = static_cast<int>(device_info<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS));
  found.max_group_size = static_cast<int>(device_info<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  found.simd_width = simd_width(id);
  const auto svm = device_info<cl_device_svm_capabilities>(id, CL_DEVICE_SVM_CAPABILITIES);
  found.has_unified_memory = (svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) != 0 ? 1 : 0;
  found.has_fp16 = has_extension(id, "cl_khr_fp16") ? 1 : 0;
  found.has_fp64 = device_info<cl_device_fp_config>(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0 ? 1 : 0;
  read_uuid(device, found.uuid);
  return found;
}
// LITERALINCLUDE END: opencl-properties

}  // namespace

orError_t orDriverGetVersion(int* version) {
  const Call named("orDriverGetVersion");
  if (version == nullptr) return fail(orErrorInvalidValue, "version is null");
  *version = 1000 * kMajor + kMinor;
  return orSuccess;
}

orError_t orGetDeviceCount(int* count) {
  return call_in_kernel("orGetDeviceCount", [&](Driver& driver) {
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

orError_t orSetDevice(int device) {
  return call_in_kernel("orSetDevice", [&](Driver& driver) {
    Device* found = nullptr;
    if (const orError_t error = driver.find_device(device, &found)) return error;
    current_device() = device;
    return orSuccess;
  });
}

orError_t orGetDeviceProperties(orDeviceProp* properties, int device) {
  return call_in_kernel("orGetDeviceProperties", [&](Driver& driver) {
    if (properties == nullptr) return fail(orErrorInvalidValue, "properties is null");
    Device* found = nullptr;
    if (const orError_t error = driver.find_device(device, &found)) return error;
    *properties = properties_of(driver, *found);
    return orSuccess;
  });
}

orError_t orDeviceSynchronize() {
  return call("orDeviceSynchronize", [](Driver& driver) { return driver.current().synchronize(); });
}

orError_t orDeviceReset() {
  return call("orDeviceReset",
              [](Driver& driver) { return process_is_ending() ? end_refused_call() : driver.current().reset(); });
}
