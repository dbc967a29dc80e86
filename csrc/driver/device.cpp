// Synchronization and reset of a device.
#include "device.h"

#include <cstdio>
#include <tuple>

#include "capture.h"
#include "driver.h"
#include "error.h"
#include "shared_event.h"

namespace openreg::driver {
namespace {

// Up to this size the hand-off to a stream's thread costs more than the work.
constexpr size_t kSmallWork = size_t{1} << 20;

}  // namespace

bool Device::begin() {
  uint32_t number = 0;
  Stream* const stream = streams.take(&number);
  if (stream == nullptr) return false;
  stream->begin(*this, number, 0);
  return true;
}

// LITERALINCLUDE START: memory-device-wait
template <class Wait>
orError_t Device::synchronize_with(Wait wait) {
  if (const orError_t error = failure.refuse()) return error;
  const uint64_t resets = failure.resets();
  if (!wait(resets)) return end_dropped_call();
  rest_if_process_is_ending();
  if (resetting_.load() || failure.resets() != resets) {
    return fail(orErrorLaunchFailure, "orDeviceReset of openreg:%d dropped the work that this call waited for", index);
  }
  return failure.report();
}

orError_t Device::synchronize() {
  if (const orError_t error = refuse_wait_while_captured(*this)) return error;
  return synchronize_with([this](uint64_t resets) {
    for (Stream* stream = first_served(); stream != nullptr; stream = stream->next_served()) {
      if (!stream->wait(stream->queued())) return false;
    }
    return wait_for_users(resets);
  });
}

orError_t Device::synchronize(Stream& stream, uint64_t sequence) {
  return synchronize_with([&](uint64_t) { return stream.wait(sequence); });
}
// LITERALINCLUDE END: memory-device-wait

// One at a time, since a copy of the map could find no memory.
bool Device::wait_for_users(uint64_t resets) {
  for (;;) {
    Stream* stream = nullptr;
    uint64_t sequence = 0;
    {
      const std::lock_guard lock(users_mutex_);
      std::erase_if(users_, [](const auto& use) { return use.first->passed(use.second); });
      if (users_.empty()) return true;
      std::tie(stream, sequence) = *users_.begin();
    }
    stream->wait_for(*this, resets, sequence);
    if (!stream->passed(sequence)) return !process_is_ending();  // this device was reset, or is lost
  }
}

void Device::used_by(Stream& stream) {
  const std::lock_guard lock(users_mutex_);
  users_[&stream] = stream.queued();
}

orError_t Device::synchronize(const SharedEvent& event, uint64_t record, SharedEvent::Outcome* outcome) {
  return synchronize_with([&](uint64_t resets) {
    *outcome = event.wait(record, *this, resets);
    return !process_is_ending();
  });
}

// LITERALINCLUDE START: memory-device-reset
orError_t Device::reset() {
  std::unique_lock lock(reset_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    if (process_is_ending()) return end_dropped_call();  // NOT PROVEN: a thread rests, and keeps the lock
    lock.lock();  // NOT PROVEN: needs two resets at once
  }
  resetting_.store(true);
  // Work of this device may be waiting for streams of any device.
  started_driver()->for_each_served_stream([](Stream& stream) { stream.wake_all(); });
  bool drained = true;
  streams.for_each_alive([&](Stream& stream, uint32_t number, uint64_t generation) {
    if (number == 0) {
      drained = stream.drain();  // the default stream survives
    } else if (stream.end(generation) == orSuccess) {  // otherwise another thread has just destroyed it
      streams.give_back(number);
    }
  });
  if (!drained) return end_dropped_call();
  events.for_each_alive([this](Event& event, uint32_t number, uint64_t generation) {
    if (event.end(generation)) events.give_back(number);
  });
  memory.clear();
  faults.clear();
  peers_.store(0);
  failure.clear();
  resetting_.store(false);
  return orSuccess;
}
// LITERALINCLUDE END: memory-device-reset

void Device::fail_with(const Device& other) {
  char text[128];
  std::snprintf(text, sizeof(text), "a stream of openreg:%d waited for work of openreg:%d, which has failed", index,
                other.index);
  failure.store(text);
}

// LITERALINCLUDE START: kernel-placement
Placement Device::placement(size_t bytes) const noexcept {
  return bytes <= kSmallWork             ? placement_when_waited_for()
         : launch == LaunchMode::kInline ? Placement::kCaller
                                         : Placement::kQueue;
}

Placement Device::placement_when_waited_for() const noexcept {
  switch (launch) {
    case LaunchMode::kAuto:
      return Placement::kCallerIfIdle;
    case LaunchMode::kAsync:
      return Placement::kQueue;
    case LaunchMode::kInline:
      break;
  }
  return Placement::kCaller;
}

void Device::list_served(Stream& stream, Stream** next) noexcept {
  *next = served_.load();
  while (!served_.compare_exchange_weak(*next, &stream)) {
  }
}
// LITERALINCLUDE END: kernel-placement

}  // namespace openreg::driver

using namespace openreg::driver;

orError_t orDeviceSynchronize() {
  const Call call("orDeviceSynchronize");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  return driver->current_device().synchronize();
}

orError_t orDeviceReset() {
  const Call call("orDeviceReset");
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  return driver->current_device().reset();
}
