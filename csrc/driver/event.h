// An event: a point in the work of a stream.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "openreg.h"
#include "shared_event.h"

namespace openreg::driver {

class Capture;
class Stream;
struct CapturedRecord;
struct StreamRef;

// LITERALINCLUDE START: event-contract
// Thread: safe. Recording again moves the event; earlier callers keep the point that was the last at that time.
class Event {
 public:
  using Clock = std::chrono::steady_clock;

  struct Point {
    Stream* stream = nullptr;  // null when the event was never recorded
    uint64_t sequence = 0;
    // For an event that several processes share; then the stream is null, and `sequence` numbers the record.
    std::shared_ptr<SharedEvent> shared = nullptr;
    // For a record that belongs to a capture; then the stream is null.
    std::shared_ptr<const CapturedRecord> captured = nullptr;

    [[nodiscard]] bool passed() const noexcept;
  };

  std::atomic<uint64_t> generation{0};  // see HandleTable

  // Turns the object into a new event and returns its generation.
  uint64_t begin(unsigned flags, std::shared_ptr<SharedEvent> shared);
  // Ends the generation; false if it has already ended. Records still queued have no effect.
  bool end(uint64_t expected_generation);

  orError_t record(const StreamRef& ref);
  [[nodiscard]] Point last() const;
  // The part that other processes see, if there is one.
  [[nodiscard]] std::shared_ptr<SharedEvent> shared() const;
  [[nodiscard]] bool timing() const noexcept { return timing_.load(); }
  // Gets the time when the stream passed the last record. False if it has not yet.
  bool time_of_last(Clock::time_point* time) const;

 private:
  struct TimeStamp;

  orError_t record_captured(uint64_t record, const Stream& stream, const std::shared_ptr<Capture>& capture);
  void set_time(uint64_t record);
  orError_t set_point(uint64_t record, const Point& point);

  std::atomic<bool> timing_{false};
  std::atomic<uint64_t> records_{0};  // numbers the records; continues when the object is reused
  mutable std::mutex mutex_;          // guards all below
  std::shared_ptr<SharedEvent> shared_;
  Point point_;
  uint64_t point_record_ = 0;  // the record that point_ belongs to
  Clock::time_point time_;
  uint64_t time_record_ = 0;  // the record that time_ belongs to
};
// LITERALINCLUDE END: event-contract

// Creates an event on the current device; `shared` is the part that other processes see, or null.
orError_t create_event(orEvent_t* event, unsigned flags, std::shared_ptr<SharedEvent> shared);

}  // namespace openreg::driver
