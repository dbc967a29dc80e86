// Captures of streams into graphs: what the allocators, the generators and every wait have to know about them.
//
// A capture begins and ends in csrc/graph. It needs the allocators, and they need to know of it: so what begins a
// capture is apart from this table of the captures under way.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "driver/openreg_graph.h"
#include "runtime/export.h"

namespace openreg {

class CapturedDraws;

// LITERALINCLUDE START: capture-state
// What belongs to one capture. The graph keeps it after the capture has ended, since its replays use it.
class CaptureState {
 public:
  CaptureState(c10::MempoolId_t pool, c10::MempoolId_t host_pool, orStreamCaptureMode mode,
               std::shared_ptr<CapturedDraws> draws);

  // A pool that the graph's memory comes from and no other memory does.
  c10::MempoolId_t pool() const { return pool_; }
  // The same for pinned memory. No two captures share it: PyTorch's host allocator knows no pool that ends and begins
  // again, as the pool of several graphs does when they are captured anew.
  c10::MempoolId_t host_pool() const { return host_pool_; }
  // The random numbers of each replay.
  CapturedDraws& draws() const { return *draws_; }
  // Whether the capture forbids this thread to wait for a whole device.
  bool forbids_device_waits() const;

 private:
  const c10::MempoolId_t pool_;
  const c10::MempoolId_t host_pool_;
  const orStreamCaptureMode mode_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const std::shared_ptr<CapturedDraws> draws_;
};
// LITERALINCLUDE END: capture-state

// Whether the driver has openreg_graph.h.
bool has_graphs();
// The driver's number of the capture that records the stream's work, by this backend or by other code; 0 if none does.
uint64_t capture_id(orStream_t stream);
OPENREG_EXPORT bool is_capturing(orStream_t stream);

// LITERALINCLUDE START: capture-table
// To be called before the driver begins a capture of this backend, and when it has begun it, or could not.
// Throws: when another capture that is under way has the pool.
void capture_begins(const std::shared_ptr<CaptureState>& state);
void capture_began(uint64_t id, const std::shared_ptr<CaptureState>& state) noexcept;
void capture_failed(const std::shared_ptr<CaptureState>& state) noexcept;
// To be called when the driver has ended it. Returns the state; null if the capture is none of this backend, or has
// ended before.
std::shared_ptr<CaptureState> capture_ended(uint64_t id);

// The backend's capture that records the stream's work; null if there is none. While no capture is under way, this
// costs one load.
std::shared_ptr<CaptureState> capture_of(orStream_t stream);
// Whether a capture forbids this thread to wait for a whole device.
bool device_waits_are_forbidden();
// Whether any stream of any device is being captured by this backend.
bool captures_are_under_way();
// LITERALINCLUDE END: capture-table

// Sets what is called when a capture of this backend has ended: there is one such function, of shared_memory.cpp, for
// what had to wait.
void set_after_capture(void (*function)());

// Refuses a step that a graph cannot contain, and invalidates the capture: a graph without the step would be wrong.
// `what` is a whole clause, such as "the host waits for the device".
void refuse_in_capture(orStream_t stream, const std::string& what);

}  // namespace openreg
