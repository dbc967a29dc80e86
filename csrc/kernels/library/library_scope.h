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
// autocast ignore them, and profilers do not see them. Setting this costs a twentieth of a small sum, so a scope
// inside another one, as in a kernel that runs at once, sets nothing.
class LibraryScope {
 public:
  LibraryScope() {
    if (t_inside) return;
    modes_.emplace();
    t_inside = true;
  }
  ~LibraryScope() {
    if (modes_) t_inside = false;
  }
  LibraryScope(const LibraryScope&) = delete;
  LibraryScope& operator=(const LibraryScope&) = delete;

 private:
  struct Modes {
    Modes() {
      if (at::hasCallbacks()) unobserved.emplace();  // Costs as much as a small kernel.
    }
    const c10::InferenceMode no_autograd;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
    std::optional<at::DisableRecordFunctionGuard> unobserved;
  };

  static inline thread_local bool t_inside = false;
  std::optional<Modes> modes_;
};
// LITERALINCLUDE END: library-scope

}  // namespace openreg
