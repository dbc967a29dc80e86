// The process that asks the driver leaves the answer in memory that it shares with this one.
#include "identity.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "check.h"
#include "run.h"

namespace conformance {
namespace {

struct Answer {
  int devices = 0;
  orDeviceProp properties{};
};
Answer* g_answer = nullptr;

void ask() {
  g_answer->devices = device_count();
  g_answer->properties = properties_of(0);
}

// A driver need not have ended its text with a zero.
template <size_t kSize>
std::string text_of(const char (&field)[kSize]) {
  return std::string(field, strnlen(field, kSize));
}

std::string problem_of(const Result& result) {
  if (result.outcome == Outcome::kMissing) return "the library has no " + result.reason;
  return result.seen.empty() ? result.reason : result.seen;
}

}  // namespace

Identity identify(const char* library, std::chrono::milliseconds limit) {
  void* const memory = mmap(nullptr, sizeof(Answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {"", "", 0, std::string("no shared memory: ") + std::strerror(errno)};
  g_answer = new (memory) Answer;
  const Result result =
      run_check({"identity", "the driver names itself", "the first line of the report", ask}, library, limit);
  Identity identity;
  if (result.outcome == Outcome::kPassed) {
    identity = {text_of(g_answer->properties.driver), text_of(g_answer->properties.name), g_answer->devices, ""};
  } else {
    identity.problem = problem_of(result);
  }
  munmap(memory, sizeof(Answer));
  return identity;
}

std::string describe(const Identity& identity) {
  if (!identity.problem.empty()) return "the driver does not name itself: " + identity.problem;
  const bool one = identity.devices == 1;
  return "driver '" + identity.driver + "', " + std::to_string(identity.devices) +
         (one ? " device, " : " devices, the first ") + "'" + identity.device + "'";
}

}  // namespace conformance
