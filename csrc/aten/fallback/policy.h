// Which operators may fall back to the CPU, and which ones did.
//
// A fallback is correct but slow: every argument and every result crosses the bus. The policy turns that silent cost
// into a choice, and the statistics into a list of the kernels that are worth writing next.
#pragma once

#include <ATen/core/operator_name.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace openreg {

enum class FallbackPolicy {
  kAll,     // every operator without a kernel falls back
  kListed,  // only the listed ones do; all others raise an error
  kError,   // the listed ones raise an error; with an empty list, all do
};

// Sets the policy of the process. A name is "aten::sub.Tensor" for one overload, or "aten::sub" for all of them.
// Throws: for an unknown operator name, and for names with kAll, which takes none.
OPENREG_EXPORT void set_fallback_policy(FallbackPolicy policy, const std::vector<std::string>& names);

// Counts the call. Throws: NotImplementedError when the policy does not let the operator fall back.
void admit_fallback(const c10::OperatorName& name);

// How often each operator fell back since the start or the last reset, by full name.
OPENREG_EXPORT std::map<std::string, uint64_t> fallback_stats();
OPENREG_EXPORT void reset_fallback_stats();

}  // namespace openreg
