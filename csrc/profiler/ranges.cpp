// The open ranges of each thread. Called on any thread, with or without the GIL.
#include "profiler/ranges.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/recorder.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: profiler-open-ranges
struct OpenRange {
  std::string name;
  int64_t begin;
};

// Empty if nothing was being recorded when the range was opened.
thread_local std::vector<std::optional<OpenRange>> t_open;
// LITERALINCLUDE END: profiler-open-ranges

}  // namespace

// LITERALINCLUDE START: profiler-push-and-pop
void push_range(const char* name) {
  t_open.push_back(is_recording() ? std::optional(OpenRange{name, c10::getTime()}) : std::nullopt);
}

void pop_range() {
  TORCH_CHECK(!t_open.empty(), "openreg: no range is open on this thread; each pop closes one push");
  if (const std::optional<OpenRange>& range = t_open.back()) record_range(range->name, range->begin);
  t_open.pop_back();
}

void mark(const char* name) {
  if (is_recording()) record_range(name, c10::getTime());
}
// LITERALINCLUDE END: profiler-push-and-pop

}  // namespace openreg
