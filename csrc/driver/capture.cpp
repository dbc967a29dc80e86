// Records what is queued on captured streams, and ends captures.
#include "capture.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "device.h"
#include "error.h"
#include "stream.h"

namespace openreg::driver {
namespace {

// How many captures have begun and not ended. While there are none, a call that waits pays for one load.
std::atomic<size_t> g_active{0};

struct ActiveCaptures {
  std::mutex mutex;
  std::vector<std::shared_ptr<Capture>> all;

  void add(const std::shared_ptr<Capture>& capture) {
    const std::lock_guard lock(mutex);
    all.push_back(capture);
    g_active.store(all.size());
  }
  std::vector<std::shared_ptr<Capture>> copy() {
    const std::lock_guard lock(mutex);
    return all;
  }
  void remove(const Capture& capture) {
    const std::lock_guard lock(mutex);
    std::erase_if(all, [&](const auto& one) { return one.get() == &capture; });
    g_active.store(all.size());
  }
};

ActiveCaptures& active_captures() {
  static ActiveCaptures& captures = *new ActiveCaptures;  // never destroyed: see process.cpp
  return captures;
}

std::atomic<uint64_t> g_last_id{0};

void merge(std::vector<uint32_t>* nodes, const std::vector<uint32_t>& more) {
  for (const uint32_t node : more) {
    if (std::ranges::find(*nodes, node) == nodes->end()) nodes->push_back(node);
  }
}

}  // namespace

// LITERALINCLUDE START: capture-record
Capture::Capture(const Stream& origin, orStreamCaptureMode mode)
    : origin_(origin),
      mode_(mode),
      id_(g_last_id.fetch_add(1) + 1),
      graph_(std::make_shared<Graph>(origin.device())),
      last_{{&origin, {}}} {}

template <class Function>
orError_t Capture::change(Function function) {
  const std::lock_guard lock(mutex_);
  if (const orError_t error = expect_valid()) return error;
  try {
    function();
    return orSuccess;
  } catch (const std::bad_alloc&) {  // NOT PROVEN: needs a host that is out of memory
    std::snprintf(reason_, sizeof(reason_), "%s: no memory", current_function());  // NOT PROVEN: as above
    return fail(orErrorMemoryAllocation, "the host has no memory to record work in");  // NOT PROVEN: as above
  }
}

orError_t Capture::add(const Stream& stream, const Task& task, Placement placement) {
  return change([&] {
    std::vector<uint32_t>& last = last_[&stream];
    std::vector<uint32_t> next{static_cast<uint32_t>(graph_->nodes().size())};
    graph_->add({task, &stream.device(), stream.handle(stream.generation.load()), last},
                placement == Placement::kQueue);
    last = std::move(next);
  });
}

orError_t Capture::record(const Stream& stream, std::vector<uint32_t>* nodes) {
  return change([&] { *nodes = last_[&stream]; });
}

orError_t Capture::wait(const Stream& stream, const std::vector<uint32_t>& nodes) {
  return change([&] { merge(&last_[&stream], nodes); });
}
// LITERALINCLUDE END: capture-record

// LITERALINCLUDE START: capture-end
// Whether the origin's last work runs after all other work, which nothing could wait for otherwise.
bool Capture::all_joined() const {
  std::vector<bool> joined(graph_->nodes().size());
  std::vector<uint32_t> open = last_.at(&origin_);
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    const std::vector<uint32_t>& after = graph_->nodes()[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  return std::ranges::find(joined, false) == joined.end();
}

orError_t Capture::end(std::shared_ptr<Graph>* graph) {
  std::shared_ptr<Graph> unused;  // declared first, to be destroyed after unlocking
  const std::lock_guard lock(mutex_);
  const orError_t error = expect_valid();
  const bool joined = error != orSuccess || all_joined();
  over_.store(true);
  active_captures().remove(*this);
  unused = std::exchange(graph_, nullptr);
  if (error != orSuccess) return error;
  if (!joined) {
    return fail(orErrorStreamCaptureUnjoined,
                "a stream joined the capture by waiting for an event, and its work has no way back: record an event on "
                "it, and make the stream that began the capture wait for it");
  }
  unused->end_after(last_.at(&origin_));
  *graph = std::move(unused);
  return orSuccess;
}

std::shared_ptr<Graph> Capture::abandon() {
  const std::lock_guard lock(mutex_);
  over_.store(true);
  active_captures().remove(*this);
  return std::exchange(graph_, nullptr);
}

orError_t Capture::refuse(orError_t error, const char* what) {
  invalidate(what);
  return fail(error, "%s; this invalidates the capture", what);
}

void Capture::invalidate(const char* why) {
  const std::lock_guard lock(mutex_);
  if (reason_[0] == '\0') std::snprintf(reason_, sizeof(reason_), "%s: %s", current_function(), why);
}

bool Capture::is_valid() const {
  const std::lock_guard lock(mutex_);
  return reason_[0] == '\0';
}

orError_t Capture::expect_valid() const {
  if (graph_ == nullptr) return fail(orErrorStreamCaptureInvalidated, "another thread has just ended the capture");
  if (reason_[0] == '\0') return orSuccess;
  return fail(orErrorStreamCaptureInvalidated, "the capture has been invalid since this call: %s", reason_);
}
// LITERALINCLUDE END: capture-end

// LITERALINCLUDE START: capture-forbidden
bool Capture::forbids_wait_for(const Device& device) const {
  if (mode_ == orStreamCaptureModeRelaxed) return false;
  if (mode_ == orStreamCaptureModeThreadLocal && !belongs_to_this_thread()) return false;
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(last_, [&](const auto& entry) { return &entry.first->device() == &device; });
}

orError_t refuse_captured(Capture& capture, const char* what) {
  char text[192];
  std::snprintf(text, sizeof(text), "the stream is being captured, and %s", what);
  return capture.refuse(orErrorStreamCaptureUnsupported, text);
}

orError_t refuse_if_captured(Stream& stream, const char* what) {
  const std::shared_ptr<Capture> capture = stream.capture();
  return capture == nullptr ? orSuccess : refuse_captured(*capture, what);
}

orError_t refuse_wait_while_captured(const Device& device) {
  if (g_active.load() == 0) return orSuccess;
  return guarded([&] {
    for (const std::shared_ptr<Capture>& capture : active_captures().copy()) {
      if (capture->forbids_wait_for(device)) {
        return capture->refuse(orErrorStreamCaptureUnsupported,
                               "a stream of the device is being captured, and what it has recorded never finishes");
      }
    }
    return orSuccess;
  });
}
// LITERALINCLUDE END: capture-forbidden

orError_t begin_capture(Stream& stream, uint64_t generation, orStreamCaptureMode mode) {
  const auto capture = std::make_shared<Capture>(stream, mode);
  active_captures().add(capture);  // first: if the host has no memory for it, the stream is as it was
  const orError_t error = stream.join_capture(generation, capture);
  if (error != orSuccess) active_captures().remove(*capture);
  return error;
}

}  // namespace openreg::driver
