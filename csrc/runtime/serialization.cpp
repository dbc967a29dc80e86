// Saves and loads the metadata of a tensor along with its values. PyTorch's pickler calls the two functions below for
// every device tensor that is saved, and for every one that is loaded with metadata. With or without the GIL.
#include <c10/util/Exception.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <string>
#include <unordered_map>

#include "runtime/tensor_meta.h"

namespace openreg {
namespace {

using Metadata = std::unordered_map<std::string, bool>;

// LITERALINCLUDE START: serialization-functions
// The map also holds PyTorch's own "conj" and "neg", so a backend's keys begin with its name.
constexpr const char* kForbidsFallback = "openreg.forbids_fallback";

// Adds only what differs from the default: a tensor without metadata is saved in the form that every PyTorch can read.
void save_metadata(const at::Tensor& tensor, Metadata& metadata) {
  if (forbids_fallback(tensor)) {
    metadata[kForbidsFallback] = true;
  }
}

// Gets the map without PyTorch's own keys. An unknown key was written by a newer version and may determine how the
// bytes are to be read, so it is not ignored.
void load_metadata(const at::Tensor& tensor, Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    TORCH_CHECK(key == kForbidsFallback, "openreg: the file says '", key, "' of a tensor, which this version of ",
                "torch_openreg does not know: load the file with the version that wrote it, or with ",
                "map_location=\"cpu\", which leaves it out");
    set_forbids_fallback(tensor, value);
  }
}
// LITERALINCLUDE END: serialization-functions

// LITERALINCLUDE START: serialization-registration
// Once per process: a second registration is an error. PyTorch accepts no device type but PrivateUse1.
[[maybe_unused]] const bool registered_serialization =
    (torch::jit::TensorBackendMetaRegistry(c10::kPrivateUse1, save_metadata, load_metadata), true);
// LITERALINCLUDE END: serialization-registration

}  // namespace
}  // namespace openreg
