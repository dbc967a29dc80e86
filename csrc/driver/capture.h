// A capture: what is recorded from one stream, and from the streams that join it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "graph.h"
#include "openreg_graph.h"

namespace openreg::driver {

class Device;
class Stream;
enum class Placement;

// LITERALINCLUDE START: capture-contract
// Thread: safe. A stream's lock may be held; a capture takes none.
class Capture {
 public:
  Capture(const Stream& origin, orStreamCaptureMode mode);

  // Records the task as the stream's next work, and takes ownership of it on success.
  orError_t add(const Stream& stream, const Task& task, Placement placement);
  // The nodes that an event recorded on the stream now stands for.
  orError_t record(const Stream& stream, std::vector<uint32_t>* nodes);
  // Later work of the stream runs after the nodes; a stream that is new to the capture joins it.
  orError_t wait(const Stream& stream, const std::vector<uint32_t>& nodes);

  // Ends the capture. The graph is null on failure.
  orError_t end(std::shared_ptr<Graph>* graph);
  // Ends it without success. The caller destroys what was recorded, without a stream's lock.
  std::shared_ptr<Graph> abandon();

  // Returns the error, with a text that begins with `what`, and makes end() fail.
  orError_t refuse(orError_t error, const char* what);
  void invalidate(const char* why);
  // Whether a call of this thread that waits for the device must be refused.
  [[nodiscard]] bool forbids_wait_for(const Device& device) const;

  [[nodiscard]] uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const Stream& origin() const noexcept { return origin_; }
  [[nodiscard]] bool is_over() const noexcept { return over_.load(); }
  [[nodiscard]] bool is_valid() const;
  [[nodiscard]] bool belongs_to_this_thread() const noexcept {
    return mode_ == orStreamCaptureModeRelaxed || std::this_thread::get_id() == thread_;
  }
// LITERALINCLUDE END: capture-contract

 private:
  // Changes the graph by calling the function, unless the capture is invalid. Without memory, it becomes invalid.
  template <class Function>
  orError_t change(Function function);

  // These require that mutex_ is held.
  [[nodiscard]] orError_t expect_valid() const;
  [[nodiscard]] bool all_joined() const;

  const Stream& origin_;
  const orStreamCaptureMode mode_;
  const uint64_t id_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<bool> over_{false};
  mutable std::mutex mutex_;  // guards all below
  char reason_[256] = "";     // why the capture is invalid; empty while it is valid. Setting it must not need memory
  std::shared_ptr<Graph> graph_;  // null once the capture is over
  std::map<const Stream*, std::vector<uint32_t>> last_;  // of each stream: what its next work runs after
};

// What an event recorded in a capture stands for.
struct CapturedRecord {
  std::shared_ptr<Capture> capture;
  std::vector<uint32_t> nodes;
};

// Begins to capture the stream.
orError_t begin_capture(Stream& stream, uint64_t generation, orStreamCaptureMode mode);
// Refuses a call that is not allowed on a captured stream; `what` completes "the stream is being captured, and".
orError_t refuse_if_captured(Stream& stream, const char* what);
orError_t refuse_captured(Capture& capture, const char* what);
// Refuses a call that waits for all streams of the device, if a capture forbids it.
orError_t refuse_wait_while_captured(const Device& device);

}  // namespace openreg::driver
