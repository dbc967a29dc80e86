// Blocks that other streams or captured graphs use: when they are free. Called on any thread, with or without the GIL,
// which nothing here takes.
#include "runtime/block_pool.h"
#include "runtime/current_device.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace openreg {

// LITERALINCLUDE START: pool-record-stream
namespace {

// Records an event behind the work queued on the stream, on the stream's device, which need not be the block's.
//
// Creates a new one each time: this driver takes it from a table. Where that is slow, keep events that have passed, as
// CUDA's allocator does, and drop them at a reset of the device, which destroys them.
orError_t record_new_event(orStream_t stream, orEvent_t* event) {
  int device = 0;
  if (const orError_t error = orStreamGetDevice(stream, &device)) return error;
  const CurrentDevice scope(device);
  orError_t error = scope.error();
  if (error == orSuccess) error = orEventCreateWithFlags(event, orEventDisableTiming);
  if (error != orSuccess) return error;
  error = orEventRecord(*event, stream);
  if (error != orSuccess) {
    // The first error is the one to report.
    [[maybe_unused]] const orError_t ignored = orEventDestroy(*event);  // NOT PROVEN: the stream was destroyed just now
  }
  return error;
}

}  // namespace

// A tensor from another library may begin inside a block. The driver knows where the segment begins.
Block* BlockPool::block_with(void* address) {
  const auto exact = blocks_.find(address);
  if (exact != blocks_.end()) return &exact->second;
  orPointerAttributes attributes{};  // stays empty for memory that was freed
  if (orPointerGetAttributes(&attributes, address) != orSuccess) static_cast<void>(orGetLastError());
  const auto first = blocks_.find(attributes.base);
  Block* block = first == blocks_.end() ? nullptr : &first->second;
  while (block != nullptr && static_cast<char*>(address) >= block->address + block->bytes) block = block->next;
  return block;
}

bool BlockPool::record_stream(void* address, orStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Block* const block = block_with(address);
  if (block == nullptr || !block->in_use) return false;
  // The block's own stream needs no event: reuse of the block is ordered on that stream.
  if (stream != block->stream && std::ranges::find(block->used_by, stream) == block->used_by.end()) {
    block->used_by.push_back(stream);
  }
  return true;
}

orError_t BlockPool::record_pending(PerDevice& owner, Block* block) {
  orError_t first_error = orSuccess;
  for (orStream_t stream : std::exchange(block->used_by, {})) {
    orEvent_t event = nullptr;
    orError_t error = record_new_event(stream, &event);
    if (error == orSuccess && remember(owner, stream, {event, block, ++owner.recorded})) {
      ++block->unpassed;
      continue;
    }
    // Without an event, or memory to keep it in, the only option is to wait. After any other error the stream or its
    // device is gone, and with it the work that could use the block.
    if (error == orSuccess || error == orErrorMemoryAllocation) error = orStreamSynchronize(stream);
    if (first_error == orSuccess) first_error = error;
  }
  return first_error;
}

bool BlockPool::remember(PerDevice& owner, orStream_t stream, Pending pending) {
  try {
    owner.pending[stream].push_back(pending);
    return true;
  } catch (const std::bad_alloc&) {  // NOT PROVEN: tests/stress/memory.cpp exhausts host memory
    [[maybe_unused]] const orError_t ignored = orEventDestroy(pending.event);  // NOT PROVEN: as above
    return false;  // NOT PROVEN: as above
  }
}

orError_t BlockPool::collect_passed(PerDevice& owner) {
  orError_t first_error = orSuccess;
  for (auto next = owner.pending.begin(); next != owner.pending.end();) {
    std::deque<Pending>& events = next->second;
    while (!events.empty()) {
      const orError_t state = orEventQuery(events.front().event);
      if (state == orErrorNotReady) break;
      // Any other answer ends the wait as well: a device that has failed runs nothing more.
      const Pending passed = events.front();
      events.pop_front();
      if (--passed.block->unpassed == 0) make_free(owner, passed.block);
      const orError_t error = state != orSuccess ? state : orEventDestroy(passed.event);
      if (first_error == orSuccess) first_error = error;
    }
    next = events.empty() ? owner.pending.erase(next) : std::next(next);
  }
  return first_error;
}
// LITERALINCLUDE END: pool-record-stream

// LITERALINCLUDE START: pool-private
void BlockPool::retain_pool(PoolId pool) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++retained_[pool];
}

void BlockPool::release_pool(PoolId pool) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = retained_.find(pool);
  if (found != retained_.end() && --found->second == 0) retained_.erase(found);
}

void BlockPool::capture_began() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++captures_;
}

orError_t BlockPool::capture_ended() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--captures_ > 0) return orSuccess;
  orError_t first_error = orSuccess;
  for (PerDevice& owner : devices_) {
    Block* next = std::exchange(owner.deferred, nullptr);
    while (next != nullptr) {
      Block* const block = std::exchange(next, next->next_unjoined);
      block->unpassed = 0;
      const orError_t error = record_pending(owner, block);
      if (first_error == orSuccess) first_error = error;
      if (block->unpassed == 0) make_free(owner, block);
    }
  }
  return first_error;
}
// LITERALINCLUDE END: pool-private

}  // namespace openreg
