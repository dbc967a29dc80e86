// Keeps the captures that are under way. Called on any thread, with or without the GIL.
#include "runtime/capture.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace openreg {
namespace {

// How many captures are under way. While there are none, no lock is taken.
std::atomic<size_t> captures_under_way{0};
std::atomic<void (*)()> after_capture{nullptr};

// The captures by the driver's number, which is 0 until the driver has begun. A capture spans several streams, and the
// driver says which.
struct Captures {
  std::mutex mutex;
  std::vector<std::pair<uint64_t, std::shared_ptr<CaptureState>>> all;

  // Requires: the mutex is held.
  auto find(uint64_t id) {
    return std::ranges::find(all, id, [](const auto& entry) { return entry.first; });
  }
  auto find(const std::shared_ptr<CaptureState>& state) {
    return std::ranges::find(all, state, [](const auto& entry) { return entry.second; });
  }
};

// Never destroyed: kernels may be launched until the process ends.
Captures& captures() {
  static Captures& table = *new Captures;
  return table;
}

}  // namespace

CaptureState::CaptureState(c10::MempoolId_t pool, c10::MempoolId_t host_pool, orStreamCaptureMode mode,
                           std::shared_ptr<CapturedDraws> draws)
    : pool_(pool), host_pool_(host_pool), mode_(mode), draws_(std::move(draws)) {}

bool CaptureState::forbids_device_waits() const {
  return mode_ == orStreamCaptureModeGlobal ||
         (mode_ == orStreamCaptureModeThreadLocal && thread_ == std::this_thread::get_id());
}

// LITERALINCLUDE START: capture-queries
bool has_graphs() { return orStreamBeginCapture != nullptr; }

uint64_t capture_id(orStream_t stream) {
  if (!has_graphs()) return 0;
  orStreamCaptureStatus status = orStreamCaptureStatusNone;
  uint64_t id = 0;
  check(orStreamGetCaptureInfo(stream, &status, &id));
  return id;
}

bool is_capturing(orStream_t stream) { return capture_id(stream) != 0; }

std::shared_ptr<CaptureState> capture_of(orStream_t stream) {
  if (C10_LIKELY(captures_under_way.load() == 0)) return nullptr;
  const uint64_t id = capture_id(stream);
  if (id == 0) return nullptr;
  Captures& table = captures();
  const std::lock_guard lock(table.mutex);
  const auto found = table.find(id);
  return found == table.all.end() ? nullptr : found->second;
}
// LITERALINCLUDE END: capture-queries

void capture_begins(const std::shared_ptr<CaptureState>& state) {
  Captures& table = captures();
  const std::lock_guard lock(table.mutex);
  TORCH_CHECK(std::ranges::none_of(table.all, [&](const auto& each) { return each.second->pool() == state->pool(); }),
              "openreg: another capture takes its memory from this pool: let it end, or choose another pool");
  table.all.emplace_back(0, state);
  captures_under_way.store(table.all.size());
}

void capture_began(uint64_t id, const std::shared_ptr<CaptureState>& state) noexcept {
  Captures& table = captures();
  const std::lock_guard lock(table.mutex);
  table.find(state)->first = id;
}

void capture_failed(const std::shared_ptr<CaptureState>& state) noexcept {
  Captures& table = captures();
  const std::lock_guard lock(table.mutex);
  table.all.erase(table.find(state));
  captures_under_way.store(table.all.size());
}

bool captures_are_under_way() { return captures_under_way.load() > 0; }

std::shared_ptr<CaptureState> capture_ended(uint64_t id) {
  std::shared_ptr<CaptureState> ended;
  Captures& table = captures();
  {
    const std::lock_guard lock(table.mutex);
    const auto found = table.find(id);
    if (found == table.all.end()) return nullptr;
    ended = std::move(found->second);
    table.all.erase(found);
    captures_under_way.store(table.all.size());
  }
  if (const auto function = after_capture.load()) function();
  return ended;
}

void set_after_capture(void (*function)()) { after_capture.store(function); }

// LITERALINCLUDE START: capture-device-waits
bool device_waits_are_forbidden() {
  if (C10_LIKELY(captures_under_way.load() == 0)) return false;
  Captures& table = captures();
  const std::lock_guard lock(table.mutex);
  return std::ranges::any_of(table.all, [](const auto& entry) { return entry.second->forbids_device_waits(); });
}
// LITERALINCLUDE END: capture-device-waits

// LITERALINCLUDE START: capture-refuse
void refuse_in_capture(orStream_t stream, const std::string& what) {
  if (C10_LIKELY(!is_capturing(stream))) return;
  // The driver refuses to wait for a captured stream, and makes the capture invalid.
  [[maybe_unused]] const orError_t refused = orStreamSynchronize(stream);
  static_cast<void>(orGetLastError());  // this error is reported below
  TORCH_CHECK(false, "openreg: ", what,
              ", while a graph is captured: its work is recorded and does not run, so there is nothing to wait for and "
              "no value to read. Do it before or after the capture, or keep the value on the device");
}
// LITERALINCLUDE END: capture-refuse

}  // namespace openreg
