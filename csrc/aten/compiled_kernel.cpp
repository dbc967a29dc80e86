// The launcher of generated kernels: a function that the device's kernels provide, if they can run generated code.
#include "aten/compiled_kernel.h"

#include <c10/util/Exception.h>

namespace openreg {
namespace {

CompiledLauncher& compiled_launcher() {
  static CompiledLauncher launcher = nullptr;
  return launcher;
}

}  // namespace

void set_compiled_launcher(CompiledLauncher launcher) { compiled_launcher() = launcher; }

// LITERALINCLUDE START: compiled-launcher
bool can_launch_compiled() { return compiled_launcher() != nullptr; }

void launch_compiled(const CompiledCall& call) {
  TORCH_CHECK_NOT_IMPLEMENTED(can_launch_compiled(), "openreg: nothing launches the generated kernel '", call.name,
                              "': this build has no host kernels (HOST_KERNELS=OFF); use torch.compile with the "
                              "backend 'aot_eager'");
  compiled_launcher()(call);
}
// LITERALINCLUDE END: compiled-launcher

}  // namespace openreg
