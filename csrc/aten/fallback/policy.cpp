// The policy of the CPU fallback and its statistics: one table for the process, guarded by a lock.
#include "aten/fallback/policy.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

namespace openreg {

// LITERALINCLUDE START: policy-names
namespace {

struct State {
  std::mutex mutex;
  FallbackPolicy policy = FallbackPolicy::kAll;
  std::set<std::string> listed;
  std::map<std::string, uint64_t> calls;
};

State& state() {
  static auto* const instance = new State();
  return *instance;
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// The names of all operators that PyTorch knows now, with and without overload.
std::set<std::string> known_names() {
  std::set<std::string> known;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    // A kernel registered for an undefined operator has a name, but no schema.
    if (c10::Dispatcher::singleton().findSchema(name).has_value()) {
      known.insert(name.name);
      known.insert(full_name(name));
    }
  }
  return known;
}

}  // namespace

void set_fallback_policy(FallbackPolicy policy, const std::vector<std::string>& names) {
  TORCH_CHECK_VALUE(policy != FallbackPolicy::kAll || names.empty(),
                    "openreg: with the policy 'all' every operator may fall back, so it takes no list of operators; "
                    "to name those that may, use 'listed', and those that may not, 'error'");
  const std::set<std::string> known = known_names();
  for (const std::string& name : names) {
    TORCH_CHECK_VALUE(known.count(name) > 0, "openreg: no operator is named '", name,
                      "'; a name is 'namespace::operator' or 'namespace::operator.overload', such as "
                      "'aten::sub.Tensor'");
  }
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().policy = policy;
  state().listed = {names.begin(), names.end()};
}
// LITERALINCLUDE END: policy-names

// LITERALINCLUDE START: policy-first-fallback
namespace {

// OPENREG_FALLBACK_WARNING=off silences the warning at the first fallback of the process. Read at that time.
bool warns_of_first_fallback() {
  const char* const choice = std::getenv("OPENREG_FALLBACK_WARNING");
  const std::string_view chosen = choice == nullptr ? "once" : choice;
  TORCH_CHECK_VALUE(chosen == "once" || chosen == "off", "openreg: OPENREG_FALLBACK_WARNING is 'once' or 'off', got '",
                    chosen, "'");
  return chosen == "once";
}

// Requires: no lock is held. The warning may be raised as an exception, which ends the call before anything is copied.
// The message begins with two words and no colon, so that Python's option -W can select it: -W "ignore:openreg runs".
void warn_of_first_fallback(const std::string& name) {
  static const bool warns = warns_of_first_fallback();
  static std::atomic_flag warned;
  if (warns && !warned.test_and_set()) {
    TORCH_WARN(
        "openreg runs ", name, " on the CPU, by copies, because it has no kernel for it. This is the first such ",
        "operator; torch.openreg.fallback_stats() lists all of them, and OPENREG_FALLBACK_WARNING=off silences this ",
        "warning");
  }
}

}  // namespace
// LITERALINCLUDE END: policy-first-fallback

// LITERALINCLUDE START: policy-admit-fallback
void admit_fallback(const c10::OperatorName& name) {
  const std::string full = full_name(name);
  std::unique_lock<std::mutex> lock(state().mutex);
  const std::set<std::string>& listed = state().listed;
  const bool is_listed = listed.count(full) > 0 || listed.count(name.name) > 0;
  const bool admitted = state().policy == FallbackPolicy::kAll ||
                        (state().policy == FallbackPolicy::kListed && is_listed) ||
                        (state().policy == FallbackPolicy::kError && !is_listed && !listed.empty());
  TORCH_CHECK_NOT_IMPLEMENTED(admitted, "openreg: ", full,
                              " has no kernel for openreg, and the fallback policy does not let it run on the CPU; ",
                              "register a kernel, or allow it with torch.openreg.set_fallback_policy");
  ++state().calls[full];
  lock.unlock();
  warn_of_first_fallback(full);
}
// LITERALINCLUDE END: policy-admit-fallback

// LITERALINCLUDE START: policy-statistics
std::map<std::string, uint64_t> fallback_stats() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().calls;
}

void reset_fallback_stats() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().calls.clear();
}
// LITERALINCLUDE END: policy-statistics

}  // namespace openreg
