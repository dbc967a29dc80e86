// The records of an event that several processes share. They lie in a file that each of them maps.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "openreg.h"

namespace openreg::driver {

class Device;

// LITERALINCLUDE START: ipc-shared-event
// Records are numbered from 1, and pass in any order, since they may be on different streams.
// Thread: safe, and safe from any process.
class SharedEvent {
 public:
  // What has become of a record. kDropped: it has passed, but the work before it never ran, since its device failed or
  // was reset. kEnded: the process that made it ended before it passed.
  enum class Outcome { kPending, kPassed, kDropped, kEnded };
  // So many records in a row can be made before the first of them has passed.
  static constexpr size_t kSlots = 64;

  static orError_t create(std::shared_ptr<SharedEvent>* event);
  // Takes the file of another process.
  static orError_t open(int file, std::shared_ptr<SharedEvent>* event);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  // Begins a record of this process.
  orError_t begin_record(uint64_t* record);
  // The record has passed, after its work or instead of it. Wakes who waits for it, in every process.
  void pass(uint64_t record, bool work_was_dropped) noexcept;
  // The number of the last record; 0 before the first.
  [[nodiscard]] uint64_t last() const noexcept { return records_->last.load(); }
  [[nodiscard]] bool passed(uint64_t record) const noexcept;
  [[nodiscard]] Outcome outcome(uint64_t record) const noexcept;
  // Waits while the record is pending, or until the device stops its work. `resets`: how often the device was reset
  // before the wait.
  [[nodiscard]] Outcome wait(uint64_t record, const Device& device, uint64_t resets) const noexcept;
  // The process that made the record.
  [[nodiscard]] int process(uint64_t record) const noexcept { return slot(record).process.load(); }
  [[nodiscard]] int file() const noexcept { return file_; }
  [[nodiscard]] static size_t file_bytes() noexcept { return sizeof(Records); }
  // LITERALINCLUDE END: ipc-shared-event

 private:
  struct Slot {
    std::atomic<uint64_t> passed;  // the last record of this slot that has passed
    std::atomic<uint64_t> dropped;  // the last whose work was dropped
    std::atomic<int32_t> process;  // that made the last record of this slot
    std::atomic<uint64_t> start;  // see start_of_process
  };
  // What the file contains. New files are zeros.
  struct Records {
    std::atomic<uint64_t> begun;
    std::atomic<uint64_t> last;  // of the records begun, the last whose slot is filled
    std::atomic<uint32_t> wakes;  // a futex
    std::array<Slot, kSlots> slots;
  };

  SharedEvent(Records* records, int file) : records_(records), file_(file) {}
  [[nodiscard]] bool abandoned(uint64_t record) const noexcept;
  [[nodiscard]] Slot& slot(uint64_t record) const noexcept { return records_->slots[record % kSlots]; }

  Records* const records_;
  const int file_;
};

}  // namespace openreg::driver
