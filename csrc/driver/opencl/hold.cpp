// Holds a stream by a user event, which the host completes, since OpenCL C has no clock and OpenCL has no host
// functions. A barrier waits for the event, and a callback of the command before the barrier starts the hold's time.
#include "hold.h"

#include <algorithm>

#include "driver.h"

namespace openreg::driver::opencl {
namespace {

// LITERALINCLUDE START: opencl-hold-queue
struct Waiting {
  HostThread* thread;
  Holds::node_type entry;
};

void CL_CALLBACK begin(cl_event, cl_int status, void* user) {
  const std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(user));
  if (status < 0) waiting->entry.mapped().function = nullptr;  // a command has failed; collect() stores it
  waiting->thread->post(std::move(waiting->entry));
}

// `before` is the command that the hold comes after, if that has not ended.
cl_int enqueue(cl_command_queue queue, cl_event* event, const ClEvent& before, HostThread& thread, Hold hold) {
  cl_int status = CL_SUCCESS;
  cl_event gate = clCreateUserEvent(hold.device->context, &status);
  if (status != CL_SUCCESS) return status;
  hold.gate = ClEvent(gate);
  // All memory is taken before the barrier is queued: if the host has none, nothing may wait for the gate.
  auto waiting = std::make_unique<Waiting>(Waiting{&thread, HostThread::prepared(std::move(hold))});
  status = clEnqueueBarrierWithWaitList(queue, 1, &gate, event);
  if (status != CL_SUCCESS) return status;
  if (before) {
    if (clSetEventCallback(before.get(), CL_COMPLETE, begin, waiting.get()) == CL_SUCCESS) {
      (void)waiting.release();  // the callback owns it
      return CL_SUCCESS;
    }
    wait_for(before);  // NOT PROVEN: needs a platform that refuses the callback
  }
  thread.post(std::move(waiting->entry));
  return CL_SUCCESS;
}

}  // namespace

orError_t queue_hold(Stream& stream, HostThread& thread, Hold hold, Work work) {
  thread.start();
  hold.device = &stream.device();
  work.span = hold.span;
  return stream.submit("clEnqueueBarrierWithWaitList", std::move(work), [&](cl_command_queue queue, cl_event* event) {
    return enqueue(queue, event, stream.last_while_locked(), thread, hold);
  });
}
// LITERALINCLUDE END: opencl-hold-queue

int64_t wall_clock() noexcept {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// LITERALINCLUDE START: opencl-hold-thread
void HostThread::start() {
  const std::lock_guard lock(mutex_);
  if (!stopping_ && !thread_.joinable()) thread_ = std::thread([this] { run(); });
}

Holds::node_type HostThread::prepared(Hold hold) {
  Holds one;
  return one.extract(one.emplace(Clock::time_point(), std::move(hold)));
}

void HostThread::post(Holds::node_type entry) {
  const std::lock_guard lock(mutex_);
  entry.mapped().span->begin = wall_clock();
  const auto now = Clock::now();
  const auto longest = std::chrono::nanoseconds(Clock::time_point::max() - now);
  entry.key() = now + std::min(entry.mapped().time, longest);
  holds_.insert(std::move(entry));
  changed_.notify_one();
}

void HostThread::run() {
  inside_kernel() = true;  // a host function that waits for its own stream would never return
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    // A hold whose device is being reset is due, whatever its time.
    auto next = std::ranges::find_if(holds_, [](const auto& entry) { return entry.second.device->stopping(); });
    if (next == holds_.end()) next = holds_.begin();
    if (next == holds_.end()) {
      changed_.wait(lock);
      continue;
    }
    if (!next->second.device->stopping() && Clock::now() < next->first) {
      changed_.wait_until(lock, next->first);
      continue;
    }
    const Hold hold = std::move(next->second);
    holds_.erase(next);
    lock.unlock();
    if (hold.function != nullptr && !hold.device->stopping() && !hold.device->failure.present()) {
      hold.function(hold.user);
    }
    hold.span->end = wall_clock();
    const cl_int status = clSetUserEventStatus(hold.gate.get(), CL_COMPLETE);
    if (status != CL_SUCCESS) hold.device->store_failure(status, "clSetUserEventStatus");
    lock.lock();
  }
}
// LITERALINCLUDE END: opencl-hold-thread

void HostThread::hurry() {
  const std::lock_guard lock(mutex_);
  changed_.notify_one();
}

void HostThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace openreg::driver::opencl
