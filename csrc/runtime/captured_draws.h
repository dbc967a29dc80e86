// The random numbers of a captured graph: new in each replay.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "driver/openreg.h"
#include "runtime/block_pool.h"
#include "runtime/generator.h"

namespace openreg {

// LITERALINCLUDE START: captured-draws
// What the operators of one capture draw. The graph keeps it after the capture has ended, since its replays use it.
class CapturedDraws {
 public:
  // `pool`: that of the graph's memory.
  explicit CapturedDraws(PoolId pool) : pool_(pool) {}

  // Reserves positions relative to the generator's offset at each replay. Called while a random operator is captured;
  // the first call for a generator registers it.
  Positions reserve(at::Generator generator, uint64_t count);
  // Reserves, for one replay, what the captured operators draw, and queues the start of each generator on the stream,
  // behind the replay before, which reads the same memory.
  void advance(const c10::Stream& stream);
  // To be called when the replay has been queued.
  void launched(const c10::Stream& stream);

 private:
  struct Drawn {
    at::Generator generator;  // shares the state of the one that was drawn from
    c10::DataPtr start;  // device memory: the seed and the offset of a replay
    uint64_t count = 0;  // the positions that one replay takes
  };

  const PoolId pool_;
  std::mutex mutex_;  // backward passes record from threads of their own
  std::vector<Drawn> drawn_;
  c10::Event last_replay_{c10::kPrivateUse1};
};
// LITERALINCLUDE END: captured-draws

}  // namespace openreg
