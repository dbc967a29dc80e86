// Assigns numbers to streams, in a table of the process. Called while a trace is built, on any thread.
#include "profiler/rows.h"

#include <map>
#include <mutex>
#include <utility>

#include "runtime/stream.h"

namespace openreg {

// LITERALINCLUDE START: profiler-row-numbers
int32_t row_of(int device, orStream_t stream) {
  static std::mutex& mutex = *new std::mutex;
  static auto& rows = *new std::map<std::pair<int, orStream_t>, int32_t>;
  static auto& used = *new std::map<int, int32_t>;
  if (stream == stream_handle(default_stream(device))) return 0;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = rows.try_emplace({device, stream}, 0);
  if (is_new) found->second = ++used[device];
  return found->second;
}

std::string name_of_row(int device, orStream_t stream) {
  const int32_t row = row_of(device, stream);
  if (row == 0) return "default stream";
  return "stream " + std::to_string(row) + " (stream_id " + std::to_string(reinterpret_cast<uintptr_t>(stream)) + ")";
}
// LITERALINCLUDE END: profiler-row-numbers

}  // namespace openreg
