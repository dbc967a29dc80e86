// A stream: an in-order OpenCL queue, and what the driver knows about its commands until they have ended.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "../openreg_activity.h"
#include "device.h"
#include "opencl.h"

namespace openreg::driver::opencl {

// When host code on a stream ran, for its activity. Nanoseconds since 1970.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;
};

// Work of another device that a stream waits for.
struct Awaited {
  explicit Awaited(const Device& other) : device(other), resets(other.failure.resets()) {}

  const Device& device;
  const uint64_t resets;  // of the device, before the wait
  std::atomic<bool> succeeded{false};  // set when the work ends, unless a failure of its device is known by then
};

// One piece of queued work. It may have several commands; `event` is that of the last.
struct Work {
  orActivityKind kind = orActivityKernel;
  bool shown = true;  // false for what a profiler does not count as work: a marker, a barrier
  size_t bytes = 0;
  orMemcpyKind copy_kind = orMemcpyDefault;
  std::string name;             // of a kernel
  std::shared_ptr<void> keeps;  // lives until the work has ended: a staging buffer, a closure
  std::shared_ptr<Span> span;   // for host code, which OpenCL does not timestamp
  std::shared_ptr<const Awaited> awaits;  // for a wait for another device

  // Set when it is queued.
  ClEvent first;
  ClEvent event;
  bool recorded = false;
  uint64_t correlation = 0;

  static Work hidden() {
    Work work;
    work.shown = false;
    return work;
  }
};

// LITERALINCLUDE START: opencl-stream
// Thread: safe. OpenCL runs the commands of an in-order queue one after the other, and reports a command's failure only
// through its event. The stream therefore keeps the events, in order, until it has seen each of them end.
class Stream {
 public:
  Stream(Device& device, uint64_t number, int priority, ClQueue queue)
      : device_(device), number_(number), priority_(priority), queue_(std::move(queue)) {}

  // Calls enqueue(queue, &event), which queues commands and returns OpenCL's status, with the lock held. After a device
  // failure, drops the work. `queued` becomes the event, empty if the work was dropped. In the launch mode inline,
  // waits for work that is shown.
  template <class Enqueue>
  orError_t submit(const char* function, Work work, Enqueue enqueue, ClEvent* queued = nullptr);
  // The same for several commands, where enqueue(queue, &first, &last) sets the events of the first and the last.
  template <class Enqueue>
  orError_t submit_several(const char* function, Work work, Enqueue enqueue, ClEvent* queued = nullptr);

  // The event of the last command that has not ended; empty if the stream is idle.
  ClEvent last();
  // The same inside `enqueue` of submit, where the lock is held.
  ClEvent last_while_locked() { return pending_.empty() ? ClEvent() : pending_.back().event; }
  // Checks which commands have ended: stores failures, reports activities, and frees what they kept.
  void collect();
  // Waits for all work, whether or not it succeeds, and collects. For resets and process exit.
  void finish();
  // Rejects further work, and waits for what is queued: the stream is destroyed. False if another thread has ended it
  // before. Callers remove the stream from its table afterwards: who waits for the device must find its work there.
  bool end();
  // Calls function() while nothing is queued or can be; false, without the call, if the stream is busy.
  template <class Function>
  bool run_if_idle(Function function);

  [[nodiscard]] Device& device() const noexcept { return device_; }
  [[nodiscard]] uint64_t number() const noexcept { return number_; }
  [[nodiscard]] int priority() const noexcept { return priority_; }

 private:
  void collect_locked();
  // Takes over the event of a command that was just queued.
  ClEvent own(cl_event event, Work work);
  orError_t fail_to_queue(cl_int status, const char* function);

  Device& device_;
  const uint64_t number_;
  const int priority_;
  const ClQueue queue_;
  std::mutex mutex_;  // guards all below, and makes queueing and owning atomic
  std::deque<Work> pending_;
  bool ended_ = false;
};
// LITERALINCLUDE END: opencl-stream

template <class Enqueue>
orError_t Stream::submit_several(const char* function, Work work, Enqueue enqueue, ClEvent* queued) {
  if (const orError_t error = device_.failure.refuse()) return error;
  if (process_is_ending()) return end_refused_call();
  ClEvent event;
  bool refused = false;
  // Not for a host function, which may take a lock that its caller holds, nor for a wait of the stream.
  const bool waits = device_.launch == LaunchMode::kInline && work.shown;
  {
    const std::lock_guard lock(mutex_);
    collect_locked();
    if (ended_) return fail(orErrorInvalidHandle, "the stream no longer exists");
    if (device_.failure.present()) return orSuccess;
    refused = process_is_ending();  // it may have begun meanwhile
    if (!refused) {
      cl_event last = nullptr;
      if (const cl_int status = enqueue(queue_.get(), &work.first, &last)) return fail_to_queue(status, function);
      event = own(last, std::move(work));
    }
  }
  if (refused) return end_refused_call();
  if (queued != nullptr) *queued = event;
  return waits ? device_.synchronize(*this, event) : orSuccess;
}

template <class Enqueue>
orError_t Stream::submit(const char* function, Work work, Enqueue enqueue, ClEvent* queued) {
  const auto one = [&](cl_command_queue queue, ClEvent*, cl_event* event) { return enqueue(queue, event); };
  return submit_several(function, std::move(work), one, queued);
}

template <class Function>
bool Stream::run_if_idle(Function function) {
  const std::lock_guard lock(mutex_);
  collect_locked();
  if (!pending_.empty() || ended_) return false;
  function();
  return true;
}

}  // namespace openreg::driver::opencl
