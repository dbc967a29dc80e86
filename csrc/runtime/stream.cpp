// Streams over the driver's stream handles. Called on any thread, with or without the GIL.
#include "runtime/stream.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <mutex>
#include <vector>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/trace.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: stream-id-layout
// A stream's id is its handle, except for the default stream, whose id is 0 whatever its handle is.
orStream_t handle_of(c10::StreamId id) { return reinterpret_cast<orStream_t>(static_cast<uintptr_t>(id)); }

c10::Stream stream_of(orStream_t handle, c10::DeviceIndex index) {
  const auto id = static_cast<c10::StreamId>(reinterpret_cast<uintptr_t>(handle));
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kPrivateUse1, index), id);
}

std::vector<orStream_t> ask_for_default_streams() {
  std::vector<orStream_t> handles(static_cast<size_t>(device_count()));
  for (size_t index = 0; index < handles.size(); ++index) {
    check(orDeviceGetDefaultStream(&handles[index], static_cast<int>(index)));
  }
  return handles;
}

// Requires: the index of a device that exists. Default streams last as long as the driver, so they are queried once.
orStream_t default_stream_handle(c10::DeviceIndex index) {
  static const auto* const handles = new std::vector<orStream_t>(ask_for_default_streams());
  return (*handles)[static_cast<size_t>(index)];
}
// LITERALINCLUDE END: stream-id-layout

// LITERALINCLUDE START: stream-current-of-thread
// The ids of the calling thread's current streams, with room for every device that PyTorch can name. All are 0 in a new
// thread. No destructor runs at thread exit, since objects that are destroyed then may still read them.
constexpr size_t kDevices = std::numeric_limits<c10::DeviceIndex>::max() + 1;
thread_local std::array<c10::StreamId, kDevices> t_current{};

// Requires: the index of a device that exists.
c10::StreamId& current_id(c10::DeviceIndex index) { return t_current[static_cast<size_t>(index)]; }
// LITERALINCLUDE END: stream-current-of-thread

// LITERALINCLUDE START: stream-pool
// The streams of one device and priority. They are never destroyed: a c10::Stream is a number that may be copied
// anywhere, so its last use is unknown.
class StreamPool {
 public:
  c10::Stream take(c10::DeviceIndex index, int priority) {
    bool is_new = false;
    orStream_t handle = take_handle(index, priority, &is_new);
    if (is_new) trace(&Tracer::trace_gpu_stream_creation, traced(handle));  // without the lock
    return stream_of(handle, index);
  }

  void add_handles(std::vector<orStream_t>* all) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::ranges::copy_if(handles_, std::back_inserter(*all), [](orStream_t handle) { return handle != nullptr; });
  }

 private:
  orStream_t take_handle(c10::DeviceIndex index, int priority, bool* is_new) {
    const std::lock_guard<std::mutex> lock(mutex_);
    orStream_t& handle = handles_[next_++ % kStreams];
    if (handle == nullptr) {
      const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, index));
      check(orStreamCreateWithPriority(&handle, priority));
      *is_new = true;
    }
    return handle;
  }

  static constexpr size_t kStreams = 32;

  std::mutex mutex_;
  size_t next_ = 0;
  std::array<orStream_t, kStreams> handles_{};
};

enum Purpose : uint8_t { kForNormal, kForUrgent, kForCaptures, kPurposes };

StreamPool& stream_pool(c10::DeviceIndex index, Purpose purpose) {
  using Pools = std::array<StreamPool, kPurposes>;
  static auto* const pools = new std::vector<Pools>(static_cast<size_t>(device_count()));
  return pools->at(static_cast<size_t>(index))[purpose];
}
// LITERALINCLUDE END: stream-pool

}  // namespace

// LITERALINCLUDE START: stream-current-of-device
c10::Stream default_stream(int64_t index) {
  return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kPrivateUse1, resolve_device_index(index)));
}

c10::Stream current_stream(int64_t index) {
  const c10::DeviceIndex device = resolve_device_index(index);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kPrivateUse1, device), current_id(device));
}

c10::Stream exchange_stream(const c10::Stream& stream) {
  static_cast<void>(stream_handle(stream));
  const c10::Stream previous = current_stream(stream.device_index());
  current_id(previous.device_index()) = stream.id();
  return previous;
}
// LITERALINCLUDE END: stream-current-of-device

// LITERALINCLUDE START: stream-from-pool
static c10::Stream take_stream(int64_t index, Purpose purpose) {
  const c10::DeviceIndex device = resolve_device_index(index);
  const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, device));
  int lowest = 0;
  int highest = 0;
  check(orDeviceGetStreamPriorityRange(&lowest, &highest));
  // 0 is PyTorch's normal priority. A driver's range need not begin there, nor contain it.
  const int priority = purpose == kForUrgent ? highest : std::clamp(0, highest, lowest);
  return stream_pool(device, purpose).take(device, priority);
}

c10::Stream stream_from_pool(c10::DeviceIndex index, int priority) {
  return take_stream(index, priority < 0 ? kForUrgent : kForNormal);
}

c10::Stream stream_for_capture(int64_t index) { return take_stream(index, kForCaptures); }
// LITERALINCLUDE END: stream-from-pool

// LITERALINCLUDE START: stream-all-handles
std::vector<orStream_t> stream_handles(c10::DeviceIndex index) {
  std::vector<orStream_t> handles{default_stream_handle(index)};
  for (const Purpose purpose : {kForNormal, kForUrgent, kForCaptures}) {
    stream_pool(index, purpose).add_handles(&handles);
  }
  return handles;
}
// LITERALINCLUDE END: stream-all-handles

// LITERALINCLUDE START: stream-external
c10::Stream external_stream(uint64_t handle) {
  orStream_t stream = handle_of(static_cast<c10::StreamId>(handle));
  TORCH_CHECK(stream != nullptr, "openreg: 0 is not the handle of a stream; the default stream has one of its own");
  int device = 0;
  check(orStreamGetDevice(stream, &device));
  const auto index = static_cast<c10::DeviceIndex>(device);
  return stream == default_stream_handle(index) ? default_stream(index) : stream_of(stream, index);
}

int stream_priority(const c10::Stream& stream) {
  int priority = 0;
  check(orStreamGetPriority(stream_handle(stream), &priority));
  return priority;
}
// LITERALINCLUDE END: stream-external

// LITERALINCLUDE START: stream-to-handle
orStream_t stream_handle(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == c10::kPrivateUse1, "openreg: a stream of this backend is needed, got ", stream);
  const c10::DeviceIndex index = resolve_device_index(stream.device_index());
  if (stream.id() == 0) {
    return default_stream_handle(index);
  }
  orStream_t handle = handle_of(stream.id());
  int device = 0;
  check(orStreamGetDevice(handle, &device));
  TORCH_CHECK(device == index, "openreg: ", stream, " does not exist: a stream of openreg:", device, " has this id");
  return handle;
}

orStream_t current_stream_handle(c10::DeviceIndex index) {
  // Checked when it was made current. If it has been destroyed since, the driver rejects it.
  const c10::DeviceIndex device = resolve_device_index(index);
  const c10::StreamId id = current_id(device);
  return id == 0 ? default_stream_handle(device) : handle_of(id);
}
// LITERALINCLUDE END: stream-to-handle

}  // namespace openreg
