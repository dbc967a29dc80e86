// A stream: work that runs in order, on a worker thread or, where that is cheaper, on the caller.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "openreg.h"
#include "task.h"
#include "timeline.h"

namespace openreg::driver {

class Capture;
class Graph;
class Device;

enum class Placement {
  kQueue,         // on the stream's thread
  kCallerIfIdle,  // on the calling thread if the stream has no work, otherwise on the stream's thread
  kCaller,        // on the calling thread, after the stream's work
};

// Sequence numbers count the queued tasks and continue when the object is reused for another stream: a pair (stream,
// sequence), which is what an event holds, stays valid forever. Work that ran on the caller has no number: it finished
// before anything could wait for it.
class Stream {
 public:
// LITERALINCLUDE START: stream-interface
  std::atomic<uint64_t> generation{0};  // see HandleTable

  // Turns the object into a new stream and returns its generation. Device and index stay the same on reuse.
  uint64_t begin(Device& device, uint32_t index, int priority);
  // Waits for the stream's work, ends its thread and its generation.
  orError_t end(uint64_t expected_generation);

  // Always takes ownership of the task, and releases it on failure. `sequence` becomes the number to wait for.
  // Returns: orErrorDeinitialized on the thread that ends the process, if the task was dropped.
  // `not_captured`: why a capture must not record the task, if so; it completes "the stream is being captured, and".
  orError_t submit(uint64_t expected_generation, Task task, Placement placement, uint64_t* sequence,
                   const char* not_captured = nullptr);

  [[nodiscard]] Device& device() const noexcept { return *device_; }
  [[nodiscard]] uint32_t index() const noexcept { return index_; }
  // The handle that the stream has, or had, in a generation.
  [[nodiscard]] orStream_t handle(uint64_t of_generation) const noexcept;
  [[nodiscard]] int priority() const noexcept { return priority_.load(); }
  [[nodiscard]] uint64_t queued() const noexcept { return queued_.reached(); }
  [[nodiscard]] bool passed(uint64_t sequence) const noexcept { return finished_.reached() >= sequence; }
  [[nodiscard]] bool idle() const noexcept { return passed(queued()); }
  // Whether the work of the sequence failed, or was dropped, by one of the last failures or resets of the device.
  [[nodiscard]] bool dropped(uint64_t sequence) const noexcept;

  // The capture that records the stream's work; null if there is none.
  [[nodiscard]] std::shared_ptr<Capture> capture();
  // From now on the capture records the stream's work. An error if another one does.
  orError_t join_capture(uint64_t expected_generation, const std::shared_ptr<Capture>& capture);

  // Waits until the stream has passed the sequence. False if the process is ending and it never will: the work was
  // dropped, or is still running.
  [[nodiscard]] bool wait(uint64_t sequence) noexcept;
  // The same on behalf of another device, `waiter`, whose loss also ends the wait, and so does a reset of it after the
  // first `resets`.
  void wait_for(const Device& waiter, uint64_t resets, uint64_t sequence) noexcept;
  // Wakes every thread that waits for this stream or serves it, to check whether its wait was canceled.
  void wake_all() noexcept;
  // Waits for the stream's work, and for a task that is running on another caller. False as for wait.
  [[nodiscard]] bool drain();
  // Ends the worker thread after the work still queued, which is dropped if the process is ending.
  void stop_worker();
  // The next stream in the device's list of streams that have ever had a worker thread.
  [[nodiscard]] Stream* next_served() const noexcept { return next_served_; }
  // LITERALINCLUDE END: stream-interface

 private:
  static constexpr size_t kSlots = 1024;

  // Checks that the object is still the stream that a handle names.
  [[nodiscard]] orError_t expect(uint64_t expected_generation) const;
  bool start_worker();
  // Requires: submit_ is held.
  [[nodiscard]] Capture* active_capture();
  // Returns the one before, which the caller destroys without the lock.
  std::shared_ptr<Capture> set_capture(std::shared_ptr<Capture> capture);
  std::shared_ptr<Graph> leave(Capture& capture);
  // The error for work that no thread can serve.
  [[nodiscard]] orError_t unserved() const;
  void serve();
  void mark_dropped(uint64_t sequence) noexcept;
  void run(Task& task);

  // LITERALINCLUDE START: stream-members
  std::mutex submit_;  // held while work is added, or runs on the caller
  std::shared_ptr<Capture> capture_;  // null, or over, unless the stream is being captured
  std::mutex capture_mutex_;  // guards capture_, which changes only while submit_ is held as well
  std::atomic<bool> may_be_captured_{false};  // whether capture_ is set
  Device* device_ = nullptr;
  uint32_t index_ = 0;
  std::atomic<int> priority_{0};
  bool served_ = false;  // whether a worker thread runs; guarded by submit_
  std::unique_ptr<Task[]> ring_;  // slot of task n: n % kSlots
  alignas(64) Timeline queued_;  // advanced under submit_
  alignas(64) Timeline finished_;  // advanced by the worker thread
  // The work that the last failures and resets dropped. Set before finished_ advances. A fixed number: noting a failure
  // must not need memory.
  struct Range {
    uint64_t first = 1;
    uint64_t last = 0;  // less than first: no work
  };
  mutable std::mutex dropped_mutex_;  // guards the two below
  std::array<Range, 16> dropped_;
  size_t ranges_ = 0;  // how many there were
  std::mutex worker_mutex_;  // guards worker_
  std::thread worker_;
  std::atomic<bool> stop_{false};
  bool listed_ = false;  // whether the stream is in the device's list; guarded by worker_mutex_
  Stream* next_served_ = nullptr;
  // LITERALINCLUDE END: stream-members
};

// Whether the calling thread is inside a kernel, where waiting for the device would deadlock.
[[nodiscard]] bool inside_kernel() noexcept;

}  // namespace openreg::driver
