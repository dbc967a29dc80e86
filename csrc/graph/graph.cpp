// Graphs: what torch.accelerator.Graph calls to capture the work of a stream, and to launch it again with one call.
//
// One thread at a time uses a graph. The driver records and launches; this file keeps what a replay needs: the memory
// of the captured tensors, and the generators that they were drawn from.
#include <ATen/core/GraphImplInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/allocator.h"
#include "runtime/capture.h"
#include "runtime/captured_draws.h"
#include "runtime/device.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/generator.h"
#include "runtime/host_allocator.h"
#include "runtime/stream.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: graph-mode
// The default concerns only the capturing thread: a DataLoader's thread that waits for a copy must not break a capture
// that it knows nothing of.
orStreamCaptureMode driver_mode(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::Global:
      return orStreamCaptureModeGlobal;
    case at::GraphCaptureMode::Relaxed:
      return orStreamCaptureModeRelaxed;
    case at::GraphCaptureMode::Default:
    case at::GraphCaptureMode::ThreadLocal:
      break;
  }
  return orStreamCaptureModeThreadLocal;
}
// LITERALINCLUDE END: graph-mode

// LITERALINCLUDE START: capture-begin-and-end
void release_pools(const CaptureState& state) {
  host_allocator().release_pool(state.host_pool());
  release_device_pool(state.pool());
}

// Begins to capture a stream of the device; memory that is allocated for captured work comes from the pool.
// Throws: when the stream cannot be captured, or another capture uses the pool.
std::shared_ptr<CaptureState> begin_capture(orStream_t stream, c10::DeviceIndex device, PoolId pool,
                                            orStreamCaptureMode mode) {
  static_cast<void>(default_generator(device));  // its first use takes a seed, which a capture would refuse
  const auto state = std::make_shared<CaptureState>(pool, new_pool_id(), mode, std::make_shared<CapturedDraws>(pool));
  capture_begins(state);
  retain_device_pool(pool);
  release_abandoned_pools();  // what a capture lacks it cannot take from the cache
  host_allocator().begin_allocate_to_pool(state->host_pool(),
                                          [state](c10::Stream of) { return capture_of(stream_handle(of)) == state; });
  // Before the driver begins: from then on, an event that another thread's free records must not be one of the capture.
  device_capture_began();
  uint64_t id = 0;
  orStreamCaptureStatus status = orStreamCaptureStatusNone;
  orError_t error = orStreamBeginCapture(stream, mode);
  if (error == orSuccess) error = orStreamGetCaptureInfo(stream, &status, &id);
  if (error != orSuccess) {
    device_capture_ended();
    host_allocator().end_allocate_to_pool(state->host_pool());
    release_pools(*state);
    capture_failed(state);
    check(error);
  }
  capture_began(id, state);
  return state;
}

// Ends the capture that the stream began; a null argument discards it. The graph is null unless the result is
// orSuccess.
orError_t end_capture(orStream_t stream, orGraph_t* graph) {
  const uint64_t id = capture_id(stream);
  const orError_t error = orStreamEndCapture(stream, graph);
  // An error of the caller, such as a wrong thread, leaves the capture as it was.
  if (error != orSuccess && id != 0 && capture_id(stream) == id) return error;
  if (const auto ended = capture_ended(id)) {
    host_allocator().end_allocate_to_pool(ended->host_pool());
    device_capture_ended();
  }
  return error;
}
// LITERALINCLUDE END: capture-begin-and-end

// LITERALINCLUDE START: graph-earlier-work
// Memory that is released during the capture counts as used by captured work alone, which has not run. So what was
// queued before must be over.
void finish_earlier_work(const c10::Stream& stream) {
  orStream_t handle = stream_handle(stream);
  if (is_capturing(handle)) return;  // the driver refuses to capture it twice
  const DriverCall call("orStreamSynchronize");
  wait_for_stream(handle, stream.device_index());
  check(orStreamSynchronize(handle));
}
// LITERALINCLUDE END: graph-earlier-work

class Graph final : public at::GraphImplInterface {
 public:
  // LITERALINCLUDE START: graph-construction
  explicit Graph(const at::GraphImplArgs& args) : keep_graph_(args.keep_graph) {
    TORCH_CHECK_NOT_IMPLEMENTED(has_graphs(),
                                "openreg: the driver has no graphs (openreg_graph.h): run the operators "
                                "one by one, as a program without graphs does");
  }
  ~Graph() override {
    if (is_in_bad_fork()) return;  // the graph belongs to the parent
    try {
      reset();
    } catch (const std::exception& error) {
      warn(error);
    }
  }
  // LITERALINCLUDE END: graph-construction

  // LITERALINCLUDE START: graph-capture-begin
  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode mode) override {
    TORCH_CHECK(state_ == nullptr, "openreg: this graph has begun a capture already: call reset() before another one");
    initialize();
    const c10::Stream stream = current_stream(-1);
    finish_earlier_work(stream);
    const PoolId own = pool == at::MempoolId_t(0, 0) ? new_pool_id() : PoolId(pool);
    state_ = begin_capture(stream_handle(stream), stream.device_index(), own, driver_mode(mode));
    stream_ = stream;
    is_capturing_ = true;
  }
  // LITERALINCLUDE END: graph-capture-begin

  // LITERALINCLUDE START: graph-capture-end
  void capture_end() override {
    TORCH_CHECK(is_capturing_, "openreg: no capture of this graph is under way: call capture_begin() first");
    TORCH_CHECK(current_stream(-1) == stream_, "openreg: the capture began on ", stream_,
                " and must end there, but the current stream is ", current_stream(-1));
    if (const orError_t error = close(&graph_)) {
      release_memory();
      check(error);
    }
    if (!keep_graph_) instantiate();
    if (!keep_graph_ && !is_debugged_) destroy_graph();
  }

  void instantiate() override {
    TORCH_CHECK(graph_ != nullptr, "openreg: there is no graph to instantiate: capture one",
                exec_ == nullptr ? "" : " with keep_graph=True, which keeps it beyond the end of the capture");
    destroy_exec();
    check(orGraphInstantiate(&exec_, graph_));
  }
  // LITERALINCLUDE END: graph-capture-end

  // LITERALINCLUDE START: graph-replay
  void replay() override {
    TORCH_CHECK(!is_capturing_ && state_ != nullptr,
                "openreg: nothing has been captured: replay() comes after capture_end()");
    if (exec_ == nullptr) instantiate();
    const c10::DeviceGuard guard(stream_.device());
    const c10::Stream stream = current_stream(stream_.device_index());
    refuse_in_capture(stream_handle(stream), "replay() is called on a stream that another graph captures");
    state_->draws().advance(stream);
    {
      const DriverCall call("orGraphLaunch");
      check(orGraphLaunch(exec_, stream_handle(stream)));
    }
    state_->draws().launched(stream);
  }
  // LITERALINCLUDE END: graph-replay

  // LITERALINCLUDE START: graph-reset
  void reset() override {
    if (state_ == nullptr) return;
    // The thread that began it may have ended, and the garbage collector drops a graph on any thread.
    if (is_capturing_) static_cast<void>(close(nullptr));
    destroy_exec();
    destroy_graph();
    release_memory();
  }

  at::MempoolId_t pool() const override {
    TORCH_CHECK(state_ != nullptr,
                "openreg: a graph has a pool from capture_begin() on: to choose one before, pass a "
                "handle of torch.openreg.graph_pool_handle() to several graphs");
    return state_->pool();
  }
  // LITERALINCLUDE END: graph-reset

  void enable_debug_mode() override { is_debugged_ = true; }

  void debug_dump(const std::string& path) override {
    TORCH_CHECK(graph_ != nullptr,
                "openreg: there is nothing to dump: call enable_debug_mode() before the capture ends");
    check(orGraphDebugDotPrint(graph_, path.c_str()));
  }

 private:
  // LITERALINCLUDE START: graph-end
  // Ends the capture, discarded if the argument is null, and returns the error that leaves it without a graph. Throws:
  // when the capture continues because the call was wrong, for example made by another thread.
  orError_t close(orGraph_t* graph) {
    orStream_t stream = stream_handle(stream_);
    const orError_t error = end_capture(stream, graph);
    if (error != orSuccess && is_capturing(stream)) check(error);
    is_capturing_ = false;
    return error;
  }

  void release_memory() { release_pools(*std::exchange(state_, nullptr)); }

  void destroy_exec() {
    if (exec_ != nullptr) check(orGraphExecDestroy(std::exchange(exec_, nullptr)));
  }
  void destroy_graph() {
    if (graph_ != nullptr) check(orGraphDestroy(std::exchange(graph_, nullptr)));
  }
  // LITERALINCLUDE END: graph-end

  const bool keep_graph_;
  bool is_debugged_ = false;
  bool is_capturing_ = false;
  c10::Stream stream_{c10::Stream::DEFAULT, c10::Device(c10::kPrivateUse1, 0)};
  std::shared_ptr<CaptureState> state_;  // null before a capture and after reset()
  orGraph_t graph_ = nullptr;
  orGraphExec_t exec_ = nullptr;
};

}  // namespace
}  // namespace openreg

// LITERALINCLUDE START: graph-registration
namespace at {
// In the namespace that the macro expects. The key is the name in upper case: torch.accelerator.Graph looks for it.
REGISTER_GRAPH_IMPL(OPENREG, openreg::Graph)
}  // namespace at
// LITERALINCLUDE END: graph-registration
