// The functions of openreg_graph.h: captures of streams, graphs and their launches, by handle.
#include "openreg_graph.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "capture.h"
#include "driver.h"
#include "error.h"
#include "graph.h"
#include "handle_table.h"
#include "kernel.h"

using namespace openreg::driver;

namespace {

using GraphPointer = std::shared_ptr<Graph>;

// Graphs by number, and executable ones in the same table. Numbers are never reused, so that a stale handle is
// recognized.
class Graphs {
 public:
  uint64_t add(HandleKind kind, GraphPointer graph) {
    const std::lock_guard lock(mutex_);
    graphs_.emplace(++last_, std::pair{kind, std::move(graph)});
    return Handle{kind, 0, 0, last_}.pack();
  }
  GraphPointer find(HandleKind kind, const void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = graphs_.find(number(kind, handle));
    return found == graphs_.end() ? nullptr : found->second.second;
  }
  GraphPointer remove(HandleKind kind, const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = graphs_.extract(number(kind, handle));
    return found.empty() ? nullptr : found.mapped().second;
  }

 private:
  // 0, which is no graph's number, for a handle of another kind.
  static uint64_t number(HandleKind kind, const void* handle) {
    const Handle parts = Handle::unpack(reinterpret_cast<uint64_t>(handle));
    return parts.kind == kind ? parts.generation : 0;
  }

  mutable std::mutex mutex_;
  std::map<uint64_t, std::pair<HandleKind, GraphPointer>> graphs_;
  uint64_t last_ = 0;
};

Graphs& graphs() {
  static Graphs& all = *new Graphs;  // never destroyed: see process.cpp
  return all;
}

orError_t find_graph(HandleKind kind, const void* handle, GraphPointer* graph) {
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  *graph = graphs().find(kind, handle);
  if (*graph != nullptr) return orSuccess;
  return fail(orErrorInvalidHandle, "%p is not %s graph, or no longer", handle,
              kind == HandleKind::kGraph ? "a" : "an executable");
}

orError_t remove_graph(HandleKind kind, const void* handle) {
  GraphPointer graph;
  if (const orError_t error = find_graph(kind, handle, &graph)) return error;
  graphs().remove(kind, handle);
  return orSuccess;
}

// LITERALINCLUDE START: graph-launch-work
// A launch is one task of the stream, whatever the number of nodes. It keeps the graph alive until it has run.
struct GraphWork {
  GraphPointer* graph;
  const char* name = "graph";

  void run(Device&) { (*graph)->run(); }
  void run_reported(Device&, orStream_t stream, uint64_t correlation) { (*graph)->run_reported(stream, correlation); }
  void release() { delete graph; }
  [[nodiscard]] Activity activity() const {                 // NOT PROVEN: that it exists has a launch recorded
    return {orActivityKernel, 0, orMemcpyDefault, name};  // NOT PROVEN: run_reported gives the activities
  }
};
// LITERALINCLUDE END: graph-launch-work

}  // namespace

orError_t orStreamBeginCapture(orStream_t stream, orStreamCaptureMode mode) {
  const Call call("orStreamBeginCapture");
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  if (mode < orStreamCaptureModeGlobal || mode > orStreamCaptureModeRelaxed) {
    return fail(orErrorInvalidValue, "mode %d does not exist; valid are 0 to 2", static_cast<int>(mode));
  }
  if (const orError_t error = ref.stream->device().failure.refuse()) return error;
  if (ref.stream->index() == 0) {
    return fail(orErrorStreamCaptureUnsupported,
                "this is the default stream of openreg:%d, where every thread's work would be recorded; capture "
                "another stream",
                ref.stream->device().index);
  }
  return guarded([&] { return begin_capture(*ref.stream, ref.generation, mode); });
}

orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph) {
  const Call call("orStreamEndCapture");
  if (graph != nullptr) *graph = nullptr;
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  const std::shared_ptr<Capture> capture = ref.stream->capture();
  if (capture == nullptr) return fail(orErrorInvalidValue, "the stream is not being captured");
  if (&capture->origin() != ref.stream) {
    return fail(orErrorInvalidValue, "the stream has joined the capture; end it on the stream that began it");
  }
  if (graph == nullptr) {
    capture->abandon();
    return orSuccess;
  }
  if (!capture->belongs_to_this_thread()) {
    return fail(orErrorInvalidValue,
                "another thread began the capture, and its mode is not Relaxed; end it there, or discard it");
  }
  return guarded([&] {
    GraphPointer captured;
    if (const orError_t error = capture->end(&captured)) return error;
    *graph = reinterpret_cast<orGraph_t>(graphs().add(HandleKind::kGraph, std::move(captured)));
    return orSuccess;
  });
}

orError_t orStreamGetCaptureInfo(orStream_t stream, orStreamCaptureStatus* status, uint64_t* id) {
  const Call call("orStreamGetCaptureInfo");
  if (status == nullptr || id == nullptr) return fail(orErrorInvalidValue, "status or id is null");
  StreamRef ref;
  if (const orError_t error = get_stream_in_kernel(stream, &ref)) return error;
  const std::shared_ptr<Capture> capture = ref.stream->capture();
  *id = capture == nullptr ? 0 : capture->id();
  *status = capture == nullptr    ? orStreamCaptureStatusNone
            : capture->is_valid() ? orStreamCaptureStatusActive
                                  : orStreamCaptureStatusInvalidated;
  return orSuccess;
}

orError_t orGraphInstantiate(orGraphExec_t* exec, orGraph_t graph) {
  const Call call("orGraphInstantiate");
  if (exec == nullptr) return fail(orErrorInvalidValue, "exec is null");
  GraphPointer found;
  if (const orError_t error = find_graph(HandleKind::kGraph, graph, &found)) return error;
  return guarded([&] {
    *exec = reinterpret_cast<orGraphExec_t>(graphs().add(HandleKind::kGraphExec, std::move(found)));
    return orSuccess;
  });
}

orError_t orGraphLaunch(orGraphExec_t exec, orStream_t stream) {
  const Call call("orGraphLaunch");
  GraphPointer graph;
  if (const orError_t error = find_graph(HandleKind::kGraphExec, exec, &graph)) return error;
  StreamRef ref;
  if (const orError_t error = get_stream(stream, &ref)) return error;
  constexpr const char* kNotNested = "a graph cannot contain a graph";
  if (const orError_t error = refuse_if_captured(*ref.stream, kNotNested)) return error;
  if (const orError_t error = graph->check_devices()) return error;
  Device& device = ref.stream->device();
  if (&graph->device() != &device) {
    return fail(orErrorInvalidValue, "the graph was captured on openreg:%d and the stream belongs to openreg:%d",
                graph->device().index, device.index);
  }
  const Placement placement = graph->queues() ? Placement::kQueue : device.placement(0);
  auto* const kept = new (std::nothrow) GraphPointer(graph);
  if (kept == nullptr) {
    return fail(orErrorMemoryAllocation, "the host has no memory to queue a graph");  // NOT PROVEN: needs such a host
  }
  const auto note = [&] {
    graph->note_launch(*ref.stream);
    return orSuccess;
  };
  if (const orError_t error = guarded(note)) {
    delete kept;  // NOT PROVEN: needs a host that is out of memory
    return error;  // NOT PROVEN: as above
  }
  const orError_t error = submit_kernel(ref, GraphWork{kept}, placement, kNotNested);
  static_cast<void>(guarded(note));  // again, now with the sequence number: there is an entry already
  return error;
}

orError_t orGraphDestroy(orGraph_t graph) {
  const Call call("orGraphDestroy");
  return remove_graph(HandleKind::kGraph, graph);
}

orError_t orGraphExecDestroy(orGraphExec_t exec) {
  const Call call("orGraphExecDestroy");
  return remove_graph(HandleKind::kGraphExec, exec);
}

orError_t orGraphDebugDotPrint(orGraph_t graph, const char* path) {
  const Call call("orGraphDebugDotPrint");
  if (path == nullptr) return fail(orErrorInvalidValue, "path is null");
  GraphPointer found;
  if (const orError_t error = find_graph(HandleKind::kGraph, graph, &found)) return error;
  return guarded([&] {
    const std::string text = found->dot();
    std::FILE* const file = std::fopen(path, "w");
    const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool closed = file != nullptr && std::fclose(file) == 0;
    if (written && closed) return orSuccess;
    return fail(orErrorInvalidValue, "'%s' cannot be written: %s", path, std::strerror(errno));
  });
}
