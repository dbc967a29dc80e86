// The scope in which a library function calls PyTorch's operators. For kernel files only: see Note [Host code as
// kernels].
#pragma once

#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

namespace openreg {

// LITERALINCLUDE START: library-scope
// While it lives, the operators that this thread calls belong to the library, not to the user's program: autograd and
// autocast ignore them, and profilers do not see them. The last costs as much as a small kernel, so it is done only
// when a profiler is active.
class LibraryScope {
 public:
  LibraryScope() {
    if (at::hasCallbacks()) unobserved_.emplace();
  }

 private:
  const c10::InferenceMode no_autograd_;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  std::optional<at::DisableRecordFunctionGuard> unobserved_;
};
// LITERALINCLUDE END: library-scope

}  // namespace openreg
