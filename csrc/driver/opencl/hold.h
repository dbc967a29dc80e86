// Host code on a stream: the stream is held until the host has done its part.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "opencl.h"
#include "stream.h"

namespace openreg::driver::opencl {

// What happens when the stream reaches the hold: after `time`, function(user) is called, if it is set, and the stream
// continues.
struct Hold {
  Device* device = nullptr;
  std::chrono::nanoseconds time{0};
  void (*function)(void* user) = nullptr;
  void* user = nullptr;
  std::shared_ptr<Span> span = std::make_shared<Span>();
  ClEvent gate;  // the stream waits for it
};

using Clock = std::chrono::steady_clock;
using Holds = std::multimap<Clock::time_point, Hold>;  // by the time when they end

// A thread that serves the holds of all streams, in the order of their times. It starts with the first hold.
class HostThread {
 public:
  // Starts the thread, unless it runs. Called before anything is queued that would wait for it. Throws:
  // std::system_error, if the host has no thread left.
  void start();
  // An entry for `post`, which itself needs no memory.
  static Holds::node_type prepared(Hold hold);
  // Starts the time of the hold. Thread: safe, and called by threads of OpenCL.
  void post(Holds::node_type entry);
  // Rechecks which holds must end at once.
  void hurry();
  // Ends the thread. Requires: no hold is left.
  void stop();

 private:
  void run();

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Holds holds_;
  std::thread thread_;
  bool stopping_ = false;
};

// Queues the hold on the stream.
orError_t queue_hold(Stream& stream, HostThread& thread, Hold hold, Work work);

// Nanoseconds since 1970.
int64_t wall_clock() noexcept;

}  // namespace openreg::driver::opencl
