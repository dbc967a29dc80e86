// Streams: tracks the commands in a queue, and implements the functions that create, destroy and wait.
#include "stream.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "activity.h"
#include "driver.h"

namespace openreg::driver::opencl {
namespace {

// A thread that is further ahead of the device waits: each command costs host memory until it has ended.
constexpr size_t kDeepest = 32768;

// A device that has failed drops its work, and its events pass. What another device does behind them would read bytes
// that were never written, so that device fails as well. `status` is that of the wait.
void fail_with(Device& waiter, const Awaited& awaited, cl_int status) {
  const Device& other = awaited.device;
  const bool came_later = awaited.succeeded.load() && other.found_late.load() <= awaited.resets;
  const bool has_failed = other.failure.present() || other.failure.resets() != awaited.resets;  // and was reset since
  if (status == CL_COMPLETE && (came_later || !has_failed)) return;
  char text[128];
  std::snprintf(text, sizeof(text), "a stream of openreg:%d waited for work of openreg:%d, which has failed",
                waiter.index, other.index);
  waiter.found_late.store(waiter.failure.resets() + 1);
  waiter.failure.store(text);
}

}  // namespace

// LITERALINCLUDE START: opencl-keep
ClEvent Stream::own(cl_event event, Work work) {
  work.event = ClEvent(event);
  if (!work.first) work.first = work.event;
  mark_recorded(work);
  try {
    pending_.push_back(std::move(work));
  } catch (const std::bad_alloc&) {
    (void)clFinish(queue_.get());  // nothing would wait for the command, and what it uses goes away
    throw;
  }
  const ClEvent kept = pending_.back().event;
  if (const cl_int status = clFlush(queue_.get())) device_.store_failure(status, "clFlush");  // starts the work
  if (pending_.size() > kDeepest) wait_for(pending_.front().event);
  return kept;
}

void Stream::collect_locked() {
  while (!pending_.empty() && has_ended(pending_.front().event)) {
    const Work& work = pending_.front();
    cl_int status = CL_COMPLETE;
    (void)clGetEventInfo(work.event.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr);
    // If a command in its wait list has failed, the stream that queued that command reports it.
    const bool failed = status < 0 && status != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    if (failed) device_.store_failure(status, work.name.empty() ? "a command" : work.name.c_str());
    if (work.awaits != nullptr) fail_with(device_, *work.awaits, status);
    if (!failed && work.recorded) report_activity(work, *this);
    pending_.pop_front();
  }
}
// LITERALINCLUDE END: opencl-keep

orError_t Stream::fail_to_queue(cl_int status, const char* function) {
  // On some platforms a failed kernel takes the queue down; its next command then lacks resources.
  if (status == CL_OUT_OF_RESOURCES && clFinish(queue_.get()) != CL_SUCCESS) {
    device_.store_failure(status, function);
    return device_.failure.report();
  }
  return fail_cl(status, function);
}

ClEvent Stream::last() {
  const std::lock_guard lock(mutex_);
  collect_locked();
  return last_while_locked();
}

void Stream::collect() {
  const std::lock_guard lock(mutex_);
  collect_locked();
}

void Stream::finish() {
  wait_for(last());
  collect();
}

bool Stream::end() {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = !std::exchange(ended_, true);
  }
  finish();
  return first;
}

}  // namespace openreg::driver::opencl

using namespace openreg::driver::opencl;
using openreg::driver::Call;
using openreg::driver::fail;

namespace {

orError_t create_stream(const char* function, orStream_t* stream, int priority) {
  return call(function, [&](Driver& driver) {
    if (stream == nullptr) return fail(orErrorInvalidValue, "stream is null");
    Device& device = driver.current();
    if (const orError_t error = device.failure.refuse()) return error;
    if (process_is_ending()) return end_refused_call();
    const int within = std::clamp(priority, driver.highest_priority, kLowestPriority);
    ClQueue queue;
    if (const orError_t error = device.create_queue(within, &queue)) return error;
    const uint64_t number = driver.new_handle();
    driver.streams.add(number, std::make_shared<Stream>(device, number, within, std::move(queue)));
    *stream = reinterpret_cast<orStream_t>(number);
    return orSuccess;
  });
}

}  // namespace

orError_t orDeviceGetDefaultStream(orStream_t* stream, int device) {
  return call_in_kernel("orDeviceGetDefaultStream", [&](Driver& driver) {
    if (stream == nullptr) return fail(orErrorInvalidValue, "stream is null");
    Device* found = nullptr;
    if (const orError_t error = driver.find_device(device, &found)) return error;
    *stream = reinterpret_cast<orStream_t>(default_stream_number(device));
    return orSuccess;
  });
}

// The only function that a forked child may call and that depends on the device: its result is kept.
orError_t orDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  const Call named("orDeviceGetStreamPriorityRange");
  if (lowest == nullptr || highest == nullptr) return fail(orErrorInvalidValue, "lowest or highest is null");
  if (!is_forked()) {
    Driver* driver = nullptr;
    if (const orError_t error = get_driver(&driver)) return error;
  }
  *lowest = kLowestPriority;
  *highest = known_highest_priority();
  return orSuccess;
}

orError_t orStreamCreate(orStream_t* stream) { return create_stream("orStreamCreate", stream, kLowestPriority); }

orError_t orStreamCreateWithPriority(orStream_t* stream, int priority) {
  return create_stream("orStreamCreateWithPriority", stream, priority);
}

orError_t orStreamDestroy(orStream_t stream) {
  return call("orStreamDestroy", [&](Driver& driver) {
    std::shared_ptr<Stream> found;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    if (found->number() == default_stream_number(found->device().index)) {
      return fail(orErrorInvalidValue, "this is the default stream of openreg:%d, which cannot be destroyed",
                  found->device().index);
    }
    if (const orError_t error = found->device().failure.refuse()) return error;
    const bool first = found->end();
    rest_if_process_is_ending();
    if (!first) return fail(orErrorInvalidHandle, "the stream no longer exists");
    (void)driver.streams.take(found->number());
    return orSuccess;
  });
}

orError_t orStreamGetDevice(orStream_t stream, int* device) {
  return call_in_kernel("orStreamGetDevice", [&](Driver& driver) {
    if (device == nullptr) return fail(orErrorInvalidValue, "device is null");
    std::shared_ptr<Stream> found;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    *device = found->device().index;
    return orSuccess;
  });
}

orError_t orStreamGetPriority(orStream_t stream, int* priority) {
  return call_in_kernel("orStreamGetPriority", [&](Driver& driver) {
    if (priority == nullptr) return fail(orErrorInvalidValue, "priority is null");
    std::shared_ptr<Stream> found;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    *priority = found->priority();
    return orSuccess;
  });
}

orError_t orStreamSynchronize(orStream_t stream) {
  return call("orStreamSynchronize", [&](Driver& driver) {
    std::shared_ptr<Stream> found;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    return found->device().synchronize(*found, found->last());
  });
}

orError_t orStreamQuery(orStream_t stream) {
  return call("orStreamQuery", [&](Driver& driver) {
    std::shared_ptr<Stream> found;
    if (const orError_t error = driver.find_stream(stream, &found)) return error;
    const bool idle = !found->last();
    if (const orError_t error = found->device().failure.report()) return error;
    return idle ? orSuccess : orErrorNotReady;
  });
}
