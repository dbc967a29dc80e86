// Streams that are always idle: they have a number and a device, and nothing ever waits in one.
#include "driver.h"

using namespace openreg::driver::minimal;
using openreg::driver::Call;
using openreg::driver::fail;

namespace {

constexpr int kOnlyPriority = 0;

// LITERALINCLUDE START: minimal-always-idle
// Waiting for a stream and querying it give the same answer: it has finished.
orError_t is_idle(const char* function, orStream_t stream) {
  return call(function, [&](Driver& driver) {
    Stream* found = nullptr;
    return driver.find_stream(stream, &found);
  });
}

}  // namespace

orError_t orStreamSynchronize(orStream_t stream) { return is_idle("orStreamSynchronize", stream); }
orError_t orStreamQuery(orStream_t stream) { return is_idle("orStreamQuery", stream); }
orError_t orDeviceSynchronize() { return is_idle("orDeviceSynchronize", nullptr); }
// LITERALINCLUDE END: minimal-always-idle

orError_t orDeviceGetDefaultStream(orStream_t* stream, int device) {
  return call("orDeviceGetDefaultStream", [&](Driver& driver) {
    if (stream == nullptr) return fail(orErrorInvalidValue, "stream is null");
    Device* found = nullptr;
    if (const orError_t error = driver.find_device(device, &found)) return error;
    *stream = reinterpret_cast<orStream_t>(static_cast<uintptr_t>(device) + 1);
    return orSuccess;
  });
}

// Lowest and highest are the same: there are no priorities.
orError_t orDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  const Call named("orDeviceGetStreamPriorityRange");
  if (lowest == nullptr || highest == nullptr) return fail(orErrorInvalidValue, "lowest or highest is null");
  *lowest = *highest = kOnlyPriority;
  return orSuccess;
}

orError_t orStreamCreateWithPriority(orStream_t* stream, int) { return orStreamCreate(stream); }

// LITERALINCLUDE START: minimal-stream
orError_t orStreamCreate(orStream_t* stream) {
  return call("orStreamCreate", [&](Driver& driver) {
    if (stream == nullptr) return fail(orErrorInvalidValue, "stream is null");
    driver.streams.emplace(++driver.last_handle, Stream{current_device()});
    *stream = reinterpret_cast<orStream_t>(driver.last_handle);
    return orSuccess;
  });
}

orError_t orStreamDestroy(orStream_t stream) {
  return call("orStreamDestroy", [&](Driver& driver) {
    Stream* found = nullptr;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    if (number_of(stream) <= driver.devices.size()) {
      return fail(orErrorInvalidValue, "this is the default stream of openreg:%d, which cannot be destroyed",
                  found->device);
    }
    driver.streams.erase(number_of(stream));
    return orSuccess;
  });
}
// LITERALINCLUDE END: minimal-stream

orError_t orStreamGetDevice(orStream_t stream, int* device) {
  return call("orStreamGetDevice", [&](Driver& driver) {
    if (device == nullptr) return fail(orErrorInvalidValue, "device is null");
    Stream* found = nullptr;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    *device = found->device;
    return orSuccess;
  });
}

orError_t orStreamGetPriority(orStream_t stream, int* priority) {
  return call("orStreamGetPriority", [&](Driver& driver) {
    if (priority == nullptr) return fail(orErrorInvalidValue, "priority is null");
    Stream* found = nullptr;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    *priority = kOnlyPriority;
    return orSuccess;
  });
}

orError_t orDeviceReset() {
  return call("orDeviceReset", [](Driver& driver) {
    const int index = current_device();
    driver.devices[static_cast<size_t>(index)].allocations.clear();
    std::erase_if(driver.streams, [&](const auto& entry) {
      return entry.first > driver.devices.size() && entry.second.device == index;
    });
    std::erase_if(driver.events, [&](const auto& entry) { return entry.second.device == index; });
    return orSuccess;
  });
}
