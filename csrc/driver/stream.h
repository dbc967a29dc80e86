// A stream: work that runs in order, on a thread of its own or, when that is cheaper, on the caller.
#pragma once

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

class Device;

enum class Placement {
  kQueue,         // on the stream's thread
  kCallerIfIdle,  // on the calling thread when the stream has no work, else on the stream's thread
  kCaller,        // on the calling thread, after the stream's work
};

// Sequence numbers count the queued tasks and go on when the object is reused for another stream: a pair (stream,
// sequence), which is what an event holds, stays meaningful for ever. Work that ran on the caller has no number: it
// was finished before anybody could ask.
class Stream {
 public:
// LITERALINCLUDE START: stream-interface
  std::atomic<uint64_t> generation{0};  // see HandleTable

  // Makes the object a new stream and returns its generation. Device and index are the same whenever it is reused.
  uint64_t begin(Device& device, uint32_t index, int priority);
  // Waits for the stream's work, ends its thread and its generation.
  orError_t end(uint64_t expected_generation);

  // Takes the task in every case, and releases it when it fails. `sequence` is the number to wait for.
  // Returns: orErrorDeinitialized, on the thread that ends the process, where the task was dropped.
  orError_t submit(uint64_t expected_generation, Task task, Placement placement, uint64_t* sequence);

  [[nodiscard]] Device& device() const noexcept { return *device_; }
  [[nodiscard]] uint32_t index() const noexcept { return index_; }
  // The handle of the stream that the object is, or was, in a generation.
  [[nodiscard]] orStream_t handle(uint64_t of_generation) const noexcept;
  [[nodiscard]] int priority() const noexcept { return priority_.load(); }
  [[nodiscard]] uint64_t queued() const noexcept { return queued_.reached(); }
  [[nodiscard]] bool passed(uint64_t sequence) const noexcept { return finished_.reached() >= sequence; }
  [[nodiscard]] bool idle() const noexcept { return passed(queued()); }

  // Waits until the stream has passed the sequence. False when the process is ending and it never will: the work was
  // dropped, or still runs.
  [[nodiscard]] bool wait(uint64_t sequence) noexcept;
  // The same on behalf of a stream of another device: that device's reset and loss end the wait too.
  void wait_for(Device& waiter, uint64_t sequence) noexcept;
  // Makes every thread that waits for this stream or serves it look again at what cancels its wait.
  void wake_all() noexcept;
  // Waits for the stream's work, and for a task that runs on another caller at the moment. False as for wait.
  [[nodiscard]] bool drain();
  // Ends the thread that serves the stream, after the work still queued; that is dropped when the process is ending.
  void stop_worker();
  // The next stream in the device's list of those that ever had a thread.
  [[nodiscard]] Stream* next_served() const noexcept { return next_served_; }
// LITERALINCLUDE END: stream-interface

 private:
  static constexpr size_t kSlots = 1024;

  // Whether the object is still the stream that a handle means.
  [[nodiscard]] orError_t expect(uint64_t expected_generation) const;
  bool start_worker();
  // What work without a thread comes to.
  [[nodiscard]] orError_t unserved() const;
  void serve();
  void run(Task& task);

// LITERALINCLUDE START: stream-members
  std::mutex submit_;  // held by whoever adds work or runs it on the caller
  Device* device_ = nullptr;
  uint32_t index_ = 0;
  std::atomic<int> priority_{0};
  bool served_ = false;           // whether a thread serves the stream; guarded by submit_
  std::unique_ptr<Task[]> ring_;  // slot of task n: n % kSlots
  alignas(64) Timeline queued_;   // moved under submit_
  alignas(64) Timeline finished_; // moved by the thread that serves the stream
  std::mutex worker_mutex_;       // guards worker_
  std::thread worker_;
  std::atomic<bool> stop_{false};
  bool listed_ = false;  // whether the stream is in the device's list; guarded by worker_mutex_
  Stream* next_served_ = nullptr;
// LITERALINCLUDE END: stream-members
};

// Whether the calling thread is inside a kernel, where waiting for the device would mean waiting for itself.
[[nodiscard]] bool inside_kernel() noexcept;

}  // namespace openreg::driver
