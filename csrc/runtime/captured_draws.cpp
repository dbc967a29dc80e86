// Draws in a capture, and the start of each replay. Called on any thread that captures or replays.
#include "runtime/captured_draws.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/allocator.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {

// LITERALINCLUDE START: draws-in-capture
Positions CapturedDraws::reserve(at::Generator generator, uint64_t count) {
  // Over the state that it has now: another thread may give it another one.
  const at::Generator source = [&generator] {
    const std::lock_guard lock(generator.mutex());
    return at::Generator(generator.get<Generator>()->graphsafe_get_state());
  }();
  const auto is_drawn = [&source](const Drawn& one) {
    return one.generator.get<Generator>()->shares_state_with(*source.get<Generator>());
  };
  const c10::DeviceGuard guard(source.device());  // the kernel reads the start there
  for (c10::DataPtr start;; start = allocate_beside(pool_, 2 * sizeof(uint64_t))) {  // not under the lock: it may wait
    const std::lock_guard lock(mutex_);
    auto found = std::ranges::find_if(drawn_, is_drawn);
    if (found == drawn_.end()) {
      if (!start) continue;
      drawn_.push_back({source, std::move(start)});
      found = std::prev(drawn_.end());
    }
    const uint64_t offset = std::exchange(found->count, found->count + count);
    return {0, offset, static_cast<const uint64_t*>(found->start.get())};
  }
}

void CapturedDraws::advance(const c10::Stream& stream) {
  if (drawn_.empty()) return;
  orStream_t handle = stream_handle(stream);
  last_replay_.block(stream);  // it may be on another stream
  for (const Drawn& one : drawn_) {
    Positions first;
    {
      at::Generator generator = one.generator;
      const std::lock_guard lock(generator.mutex());
      first = generator.get<Generator>()->reserve(one.count);
    }
    // The driver reads pageable memory before it returns, so the next replay may reserve at once.
    const std::array<uint64_t, 2> start{first.seed, first.offset};
    const DriverCall call("orMemcpyAsync");
    check(orMemcpyAsync(one.start.get(), start.data(), sizeof(start), orMemcpyHostToDevice, handle));
  }
}

void CapturedDraws::launched(const c10::Stream& stream) {
  if (!drawn_.empty()) last_replay_.record(stream);
}
// LITERALINCLUDE END: draws-in-capture

}  // namespace openreg
