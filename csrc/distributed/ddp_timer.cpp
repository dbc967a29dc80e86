// Times of DistributedDataParallel: it samples how long the forward pass, the backward pass and the communication take.
// Without a timer for the device it warns, and reports nothing. Called on any thread.
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>
#include <optional>

#include "runtime/stream.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: distributed-timer
// The moments of one iteration, as events on the device's current stream.
class EventTimer final : public c10d::Timer {
 public:
  explicit EventTimer(c10::Device device) : device_(device) {}

  void record(Event moment) override {
    Timer::record(moment);
    std::optional<c10::Event>& event = events_[static_cast<size_t>(moment)];
    if (!event.has_value()) event.emplace(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT);  // with timing
    event->record(current_stream(device_.index()));
  }

  // Nanoseconds of the device, or nothing if one of the moments has not come.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const std::optional<c10::Event>& from = events_[static_cast<size_t>(start)];
    const std::optional<c10::Event>& to = events_[static_cast<size_t>(end)];
    if (!from.has_value() || !to.has_value()) return std::nullopt;
    from->synchronize();
    to->synchronize();
    const double milliseconds = from->elapsedTime(*to);
    // One of them is of an earlier iteration.
    if (milliseconds < 0) return std::nullopt;
    return static_cast<int64_t>(milliseconds * 1e6);
  }

 private:
  static constexpr size_t kMoments = static_cast<size_t>(Event::kBackwardCommEnd) + 1;
  const c10::Device device_;
  std::array<std::optional<c10::Event>, kMoments> events_;
};
// LITERALINCLUDE END: distributed-timer

}  // namespace
}  // namespace openreg

// The registry's macro defines names in the namespace of the registry.
namespace c10d {
namespace {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, openreg::EventTimer);
}  // namespace
}  // namespace c10d
