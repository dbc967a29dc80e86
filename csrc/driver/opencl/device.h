// One OpenCL device, with its memory and its failure.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "../config.h"
#include "../failure.h"
#include "arena.h"
#include "opencl.h"

namespace openreg::driver::opencl {

class Stream;

// A block that orFreeAsync has freed, and that its stream may still use.
struct Retired {
  Arena::Block block;
  uint64_t stream;
  ClEvent until;
};

class Device {
 public:
  Device(int device_index, cl_device_id device_id, cl_context cl, LaunchMode mode, size_t memory)
      : index(device_index), id(device_id), context(cl), launch(mode), arena(cl, memory) {}

  orError_t create_queue(int priority, ClQueue* queue) const;
  // Queues a command that does nothing and whose event has timestamps.
  cl_int enqueue_mark(cl_command_queue queue, cl_event* event) const;
  // Determines which command that is.
  orError_t choose_mark();

  // Waits for all work queued so far and reports the failure of a command, or that the device was reset meanwhile.
  orError_t synchronize();
  // The same for the work of one stream up to an event; an empty event means no wait.
  orError_t synchronize(Stream& stream, const ClEvent& event);
  // Waits for all work, whether or not it succeeds.
  void finish();
  orError_t reset();

  // Stores the failure of a command, for the next function that synchronizes.
  void store_failure(cl_int status, const char* what);
  // Whether holds end at once.
  [[nodiscard]] bool stopping() const noexcept { return resetting_.load() || process_is_ending(); }

  const int index;
  const cl_device_id id;
  const cl_context context;
  const LaunchMode launch;
  Arena arena;
  Failure failure;
  // After how many resets a failure came from collect(), and may be older than its record; plus 1, so 0 is never.
  std::atomic<uint64_t> found_late{0};
  std::mutex retired_mutex;
  std::vector<Retired> retired;  // guarded by retired_mutex

 private:
  [[nodiscard]] orError_t fail_ended_by_reset() const;
  // Whether the device accepts work; after a failed kernel it may not.
  [[nodiscard]] bool works() const;
  orError_t lose();
  orError_t synchronize_with(const std::function<void()>& wait);

  void* fill_for_marks_ = nullptr;  // a byte of device memory, if the events of markers have no timestamps
  std::atomic<bool> resetting_{false};
  std::mutex reset_mutex_;  // one reset at a time
};

// Waits until the command has ended, successfully or not. An empty event means no wait.
void wait_for(const ClEvent& event) noexcept;

}  // namespace openreg::driver::opencl
