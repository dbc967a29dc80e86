// An event in a shared file: counters, and a futex that wakes other processes too.
#include "shared_event.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>

#include "device.h"
#include "error.h"
#include "ipc.h"

namespace openreg::driver {
namespace {

// How often a waiter checks whether its wait was cancelled, and whether the other process still runs.
constexpr std::chrono::milliseconds kPatience(5);

// Raises a number that other threads raise as well.
void raise(std::atomic<uint64_t>& number, uint64_t to) noexcept {
  uint64_t before = number.load();
  while (before < to && !number.compare_exchange_weak(before, to)) {
  }
}

}  // namespace

// LITERALINCLUDE START: ipc-event-file
orError_t SharedEvent::create(std::shared_ptr<SharedEvent>* event) {
  int file = -1;
  if (const orError_t error = make_file(sizeof(Records), &file)) return error;
  return open(file, event);
}

orError_t SharedEvent::open(int file, std::shared_ptr<SharedEvent>* event) {
  void* const page = mmap(nullptr, sizeof(Records), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) {
    const int reason = errno;
    close(file);
    return fail(orErrorMemoryAllocation, "the host could not map a shared event (%s)", std::strerror(reason));
  }
  static_assert(decltype(Records::last)::is_always_lock_free);  // a lock would belong to one process
  auto* const made = new (std::nothrow) SharedEvent(static_cast<Records*>(page), file);
  if (made == nullptr) {
    munmap(page, sizeof(Records));  // NOT PROVEN: needs a host that is out of memory
    close(file);                    // NOT PROVEN: as above
    return fail(orErrorMemoryAllocation, "the host has no memory for a shared event");  // NOT PROVEN: as above
  }
  return guarded([&] {
    event->reset(made);  // if it throws, it has destroyed the event, which closes the file
    return orSuccess;
  });
}

SharedEvent::~SharedEvent() {
  munmap(records_, sizeof(Records));
  close(file_);
}
// LITERALINCLUDE END: ipc-event-file

// LITERALINCLUDE START: ipc-event-record
orError_t SharedEvent::begin_record(uint64_t* record) {
  static const uint64_t start = start_of_process(getpid());
  uint64_t number = records_->begun.load();
  uint64_t oldest = 0;
  do {
    oldest = number < kSlots ? 0 : number + 1 - kSlots;  // the last record of the same slot
    if (!passed(oldest) && !abandoned(oldest)) {
      return fail(
          orErrorInvalidValue,
          "the event was recorded %zu times, and the first of these records has not passed: wait for it, or use "
          "another event",
          kSlots);
    }
  } while (!records_->begun.compare_exchange_weak(number, number + 1));
  *record = number + 1;
  // The slot forgets who has abandoned the record. Whoever still waits for it must not take the next one for it.
  if (!passed(oldest)) pass(oldest, /*work_was_dropped=*/true);
  // Whoever waits for the record must find its process, so the slot is filled before the record becomes the last.
  slot(*record).process.store(getpid());
  slot(*record).start.store(start);
  raise(records_->last, *record);
  return orSuccess;
}

void SharedEvent::pass(uint64_t record, bool work_was_dropped) noexcept {
  if (work_was_dropped) raise(slot(record).dropped, record);  // first: who sees the record pass must see this, too
  raise(slot(record).passed, record);
  records_->wakes.fetch_add(1);
  syscall(SYS_futex, &records_->wakes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool SharedEvent::passed(uint64_t record) const noexcept { return record == 0 || slot(record).passed.load() >= record; }

// Whether the record never passes, since the process that made it has ended.
bool SharedEvent::abandoned(uint64_t record) const noexcept {
  const uint64_t now = start_of_process(process(record));
  const uint64_t then = slot(record).start.load();
  const bool has_ended = now == 0 || (now != then && now != kUnknownStart && then != kUnknownStart);
  return has_ended && !passed(record);  // asked last: the record may pass just before the process ends
}

SharedEvent::Outcome SharedEvent::outcome(uint64_t record) const noexcept {
  if (!passed(record)) return abandoned(record) ? Outcome::kEnded : Outcome::kPending;
  // The slot may be that of a later record by now. Its work was dropped because the device had failed, so what the
  // record stands for is not to be relied upon either.
  return record != 0 && slot(record).dropped.load() >= record ? Outcome::kDropped : Outcome::kPassed;
}
// LITERALINCLUDE END: ipc-event-record

// LITERALINCLUDE START: ipc-event-wait
SharedEvent::Outcome SharedEvent::wait(uint64_t record, const Device& device, uint64_t resets) const noexcept {
  using Clock = std::chrono::steady_clock;
  const timespec patience{0, std::chrono::nanoseconds(kPatience).count()};
  for (auto asked = Clock::now();;) {
    const uint32_t wakes = records_->wakes.load();
    if (passed(record)) return outcome(record);
    if (device.stopping_since(resets)) return Outcome::kPending;
    syscall(SYS_futex, &records_->wakes, FUTEX_WAIT, wakes, &patience, nullptr, 0);
    // By the clock: records of other processes may wake it again and again.
    const auto now = Clock::now();
    if (now - asked < kPatience) continue;
    asked = now;
    if (abandoned(record)) return Outcome::kEnded;
  }
}
// LITERALINCLUDE END: ipc-event-wait

}  // namespace openreg::driver
