// Records memory events. The pool calls it with its lock held, so anything slow, or in need of the GIL, is done
// beforehand.
#include "runtime/memory_history.h"

#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace openreg {

using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;

// LITERALINCLUDE START: history-scopes
namespace {

// Both point to objects on the calling thread's stack, so that no destructor runs at thread exit.
thread_local const Stack* t_stack = nullptr;
thread_local HistoryCopy* t_copy = nullptr;

Stack current_stack() { return t_stack != nullptr ? *t_stack : nullptr; }

}  // namespace

void MemoryHistory::StackScope::begin(c10::CachingDeviceAllocator::CreateContextFn gather) {
  stack_ = gather();  // may run Python, which may free memory and so enter and leave a nested scope
  if (stack_ != nullptr) outer_ = std::exchange(t_stack, &stack_);
}

// An allocation that frees memory, for example by a callback of a program that is out of memory, is such an outer
// scope.
void MemoryHistory::StackScope::end() { t_stack = outer_; }

MemoryHistory::CopyScope::CopyScope(HistoryCopy* copy) { t_copy = copy; }
MemoryHistory::CopyScope::~CopyScope() { t_copy = nullptr; }
// LITERALINCLUDE END: history-scopes

// LITERALINCLUDE START: history-start-and-stop
void MemoryHistory::record(const HistorySettings& settings) {
  const std::lock_guard<std::mutex> lock(mutex_);
  settings_ = settings;
  for (PerDevice& of : devices_) {
    std::vector<TraceEntry> entries = settings.clear ? std::vector<TraceEntry>() : in_order(of);
    const size_t kept = std::min(entries.size(), settings.max_entries);
    of.entries.assign(std::make_move_iterator(entries.end() - static_cast<ptrdiff_t>(kept)),
                      std::make_move_iterator(entries.end()));
    of.next = 0;
  }
  gather_for_state_.store(settings.stacks >= RecordContext::STATE ? settings.gather : nullptr);
  gather_for_all_.store(settings.stacks >= RecordContext::ALL ? settings.gather : nullptr);
}

void MemoryHistory::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  gather_for_state_.store(nullptr);
  gather_for_all_.store(nullptr);
  settings_ = {};
  std::ranges::fill(devices_, PerDevice());
}
// LITERALINCLUDE END: history-start-and-stop

// LITERALINCLUDE START: history-events
void MemoryHistory::happened(PoolEvent event, const Block& block) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    follow(devices_[static_cast<size_t>(block.device)], event, block);
  } catch (const std::exception&) {
    // The host has no memory for the entry: the pool continues without it.
  }
}

void MemoryHistory::follow(PerDevice& of, PoolEvent event, const Block& block) {
  switch (event) {
    case PoolEvent::kAllocated:
      add(of, TraceEntry::ALLOC, block, block.requested);
      of.blocks.insert_or_assign(block.address, InUse{block.requested, current_stack()});
      return;
    case PoolEvent::kFreeRequested:
      return add(of, TraceEntry::FREE_REQUESTED, block, block.requested);
    case PoolEvent::kFreeCompleted: {
      // The block no longer has its requested size. If the history does not have it either, the block was allocated
      // before the recording began.
      const auto found = of.blocks.find(block.address);
      add(of, TraceEntry::FREE_COMPLETED, block, found == of.blocks.end() ? block.bytes : found->second.requested);
      of.blocks.erase(block.address);
      return;
    }
    case PoolEvent::kSegmentAllocated:
      add(of, TraceEntry::SEGMENT_ALLOC, block, block.bytes);
      of.segments.insert_or_assign(block.address, current_stack());
      return;
    case PoolEvent::kSegmentFreed:
      add(of, TraceEntry::SEGMENT_FREE, block, block.bytes);
      of.segments.erase(block.address);
      return;
    case PoolEvent::kSnapshot:
      add(of, TraceEntry::SNAPSHOT, block, block.bytes);
      if (t_copy != nullptr) copy_to(t_copy, of);
      return;
  }
}

void MemoryHistory::out_of_memory(int device, size_t available, size_t requested) noexcept {
  Block block;
  block.device = device;
  block.address = reinterpret_cast<char*>(available);  // PyTorch's entry stores it as the address
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    add(devices_[static_cast<size_t>(device)], TraceEntry::OOM, block, requested);
  } catch (const std::exception&) {
    // As above: the error that is being raised matters more.
  }
}
// LITERALINCLUDE END: history-events

// LITERALINCLUDE START: history-ring
void MemoryHistory::add(PerDevice& of, TraceEntry::Action action, const Block& block, size_t bytes) {
  if (settings_.max_entries == 0 || (settings_.skipped >> action & 1U) != 0) return;
  TraceEntry entry(action, static_cast<c10::DeviceIndex>(block.device), reinterpret_cast<size_t>(block.address), bytes,
                   block.stream, block.pool, c10::getApproximateTime(),
                   settings_.stacks >= RecordContext::ALLOC ? current_stack() : nullptr);
  if (of.entries.size() < settings_.max_entries) {
    of.entries.push_back(std::move(entry));
    return;
  }
  of.entries[of.next] = std::move(entry);
  of.next = (of.next + 1) % of.entries.size();
}

std::vector<TraceEntry> MemoryHistory::in_order(const PerDevice& of) {
  std::vector<TraceEntry> entries = of.entries;
  std::ranges::rotate(entries, entries.begin() + static_cast<ptrdiff_t>(of.next));
  return entries;
}

void MemoryHistory::copy_to(HistoryCopy* copy, const PerDevice& of) const {
  copy->entries = in_order(of);
  for (const auto& [address, block] : of.blocks) copy->blocks.emplace(address, block.stack);
  copy->segments = of.segments;
}
// LITERALINCLUDE END: history-ring

}  // namespace openreg
