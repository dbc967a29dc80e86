// A unit of work in a stream's ring: fixed in size, so that queueing never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "activity.h"

namespace openreg::driver {

class Device;

// LITERALINCLUDE START: stream-task
// Wraps a `Work`: a trivially copyable struct with
//   void run(Device&)   does the work on the stream's device; skipped if the device drops its work
//   void release()      frees what the work owns; called once, after run or instead of it
//   Activity activity() optional: describes the work to be recorded
//   void run_reported(Device&, orStream_t, uint64_t correlation)
//                       optional: runs work of several parts, and reports each as an activity
//   bool keep()         optional: called before the work is queued, to take over what its caller will destroy;
//                       false if the host is out of memory
class Task {
 public:
  template <class Work>
  explicit Task(const Work& work) noexcept : functions_(&kFunctions<Work>) {
    static_assert(std::is_trivially_copyable_v<Work>);
    static_assert(sizeof(Work) <= sizeof(payload_) && alignof(Work) <= alignof(std::max_align_t));
    new (payload_) Work(work);
  }
  Task() = default;

  void run(Device& device) { functions_->run(payload_, device); }
  void release() { functions_->release(payload_); }
  [[nodiscard]] bool keep() { return functions_->keep(payload_); }

  // Marks the task to be recorded with this correlation number.
  void record(uint64_t correlation) {
    recorded_ = has_activity();
    correlation_ = correlation;
  }
  [[nodiscard]] bool recorded() const { return recorded_; }
  [[nodiscard]] uint64_t correlation() const { return correlation_; }
  [[nodiscard]] bool has_activity() const { return functions_->activity != nullptr; }
  [[nodiscard]] Activity activity() const { return functions_->activity(payload_); }
  // Runs the task, and reports it as an activity of the stream, if there is something to report.
  void run_reported(Device& device, orStream_t stream, uint64_t correlation);

 private:
  struct Functions {
    void (*run)(void* work, Device& device);
    void (*release)(void* work);
    bool (*keep)(void* work);
    Activity (*activity)(const void* work);  // null if there is nothing to record
    void (*run_reported)(void* work, Device& device, orStream_t stream, uint64_t correlation);  // null: as a whole
  };
  template <class Work>
  static constexpr auto describe() -> Activity (*)(const void*) {  // NOT PROVEN: runs at compile time
    if constexpr (requires(const Work& own) { own.activity(); }) {  // NOT PROVEN: as above
      return [](const void* work) { return static_cast<const Work*>(work)->activity(); };
    } else {
      return nullptr;  // NOT PROVEN: as above
    }
  }
  template <class Work>
  static constexpr auto in_parts() -> void (*)(void*, Device&, orStream_t, uint64_t) {  // NOT PROVEN: as above
    if constexpr (requires(Work& own, Device& device) { own.run_reported(device, nullptr, 0); }) {  // NOT PROVEN: above
      return [](void* work, Device& device, orStream_t stream, uint64_t correlation) {  // NOT PROVEN: the page graph
        static_cast<Work*>(work)->run_reported(device, stream, correlation);  // NOT PROVEN: profiles a replay
      };  // NOT PROVEN: as above
    } else {
      return nullptr;  // NOT PROVEN: as above
    }
  }
  template <class Work>
  static constexpr Functions kFunctions = {
      [](void* work, Device& device) { static_cast<Work*>(work)->run(device); },
      [](void* work) { static_cast<Work*>(work)->release(); },
      [](void* work) {
        if constexpr (requires(Work& own) { own.keep(); }) {
          return static_cast<Work*>(work)->keep();
        } else {
          return true;
        }
      },
      describe<Work>(),
      in_parts<Work>(),
  };

  const Functions* functions_ = nullptr;
  uint64_t correlation_ = 0;
  bool recorded_ = false;
  alignas(std::max_align_t) std::byte payload_[64];
};
// LITERALINCLUDE END: stream-task

// Releases a task, and lets it take over what its caller will destroy, as a kernel does: the driver cannot be called.
void release(Task& task);
[[nodiscard]] bool keep(Task& task);

}  // namespace openreg::driver
