// The list of native kernels, filled by static initialization of the library that contains them.
#include "aten/kernel_source.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: kernel-source-list
std::map<std::string, std::vector<at::ScalarType>>& list() {
  static std::map<std::string, std::vector<at::ScalarType>> kernels;
  return kernels;
}

}  // namespace

void declare_native(const std::string& name, std::span<const at::ScalarType> dtypes) {
  list()[name].assign(dtypes.begin(), dtypes.end());
}

const std::map<std::string, std::vector<at::ScalarType>>& native_kernels() { return list(); }
// LITERALINCLUDE END: kernel-source-list

}  // namespace openreg
