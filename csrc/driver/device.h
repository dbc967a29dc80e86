// One simulated device: its memory, its streams and events, and its failure.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "config.h"
#include "device_memory.h"
#include "event.h"
#include "failure.h"
#include "faults.h"
#include "handle_table.h"
#include "process.h"
#include "shared_event.h"
#include "stream.h"

namespace openreg::driver {

class Device {
 public:
  Device(int device_index, LaunchMode launch_mode, const AddressSpace& space)
      : index(device_index), launch(launch_mode), memory(device_index, space) {}

  // Creates the default stream. False when the host has no memory.
  bool begin();
  // Implements orDeviceReset.
  orError_t reset();
  // This device needs results of another one that has failed, or was reset before it computed them.
  void fail_with(const Device& other);

// LITERALINCLUDE START: memory-device-parts
  // Whether work runs; otherwise it is dropped.
  [[nodiscard]] bool runs_work() const noexcept { return !stopping() && !failure.present(); }
  // Whether work that is running or waiting must end now.
  [[nodiscard]] bool stopping() const noexcept { return resetting_.load() || failure.lost() || process_is_ending(); }

  // Waits for all work queued so far and reports the failure of a kernel, or that a reset dropped the work.
  orError_t synchronize();
  // The same for the work of one stream up to a sequence number.
  orError_t synchronize(Stream& stream, uint64_t sequence);
  // A stream of another device has work in its queue, a graph, that uses this one: synchronize() waits for it as well.
  // Throws: std::bad_alloc.
  void used_by(Stream& stream);
  // LITERALINCLUDE END: memory-device-parts
  // The same for a record of an event that several processes share.
  orError_t synchronize(const SharedEvent& event, uint64_t record, SharedEvent::Outcome* outcome);
  // Whether work that was waiting after so many resets must end now.
  [[nodiscard]] bool stopping_since(uint64_t resets) const noexcept { return stopping() || failure.resets() != resets; }

  // Where a copy or kernel that touches `bytes` runs, and where one runs that its caller waits for.
  [[nodiscard]] Placement placement(size_t bytes) const noexcept;
  [[nodiscard]] Placement placement_when_waited_for() const noexcept;

  // Adds a stream to the list of streams that have ever had a worker thread. Thread: lock-free.
  void list_served(Stream& stream, Stream** next) noexcept;
  [[nodiscard]] Stream* first_served() const noexcept { return served_.load(std::memory_order_acquire); }

  // Whether kernels on this device may use the memory of `peer`: the device itself, or an enabled peer.
  [[nodiscard]] bool can_use(int peer) const noexcept { return peer == index || (peers_.load() >> peer & 1) != 0; }
  void enable_peer(int peer) noexcept { peers_.fetch_or(1U << peer); }
  void disable_peer(int peer) noexcept { peers_.fetch_and(~(1U << peer)); }

  const int index;
  const LaunchMode launch;
  DeviceMemory memory;
  Failure failure;
  Faults faults;
  HandleTable<Stream> streams;  // the default stream has index 0
  HandleTable<Event> events;

 private:
  template <class Wait>
  orError_t synchronize_with(Wait wait);

  bool wait_for_users(uint64_t resets);  // false if the process is ending

  std::atomic<Stream*> served_{nullptr};
  std::mutex users_mutex_;
  std::map<Stream*, uint64_t> users_;  // of other devices, with the sequence number of the last such work
  std::atomic<uint32_t> peers_{0};  // bit n: device n
  std::atomic<bool> resetting_{false};
  std::mutex reset_mutex_;  // one reset at a time
};

}  // namespace openreg::driver
