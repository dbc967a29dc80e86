// What generated C++ calls of the backend. With its option cpp_wrapper, torch.compile writes such C++, compiles it
// while the program runs, and links it against libtorch_openreg. Therefore this header is installed with the package,
// and includes no other header of the backend and none of ATen, which would take longer to compile than the generated
// code. Tensors are handles, and functions return an error code and keep the message, as do those that PyTorch has for
// generated code (torch/csrc/inductor/aoti_torch/c/shim.h).
#pragma once

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>

namespace openreg {

// LITERALINCLUDE START: generated-code-contract
// One argument of a kernel.
struct GeneratedValue {
  enum class Kind : int32_t { tensor, integer, real } kind;
  union {
    AtenTensorHandle tensor;
    int64_t integer;
    double real;
  };
};

// Makes a device current until the end of the scope.
class GeneratedGuard : public c10::DeviceGuard {
 public:
  explicit GeneratedGuard(c10::DeviceIndex index)
      : DeviceGuard({c10::kPrivateUse1, index}) {}  // NOT PROVEN: generated code calls it, whose lines are not counted
};

// Throws the message that a failed call has kept, or if there is none, as after an exception of Python, its text.
// PyTorch's macro throws the text alone, so that a program would not learn that memory has run out.
AOTI_TORCH_EXPORT void check_generated(AOTITorchError error, const char* call);
#undef AOTI_TORCH_ERROR_CODE_CHECK
#define AOTI_TORCH_ERROR_CODE_CHECK(call) openreg::check_generated(call, #call)

extern "C" {

// Queues the function at `entry`, which reads an array of CompiledArgument, on the device's current stream.
// Requires: the library that contains the function is never unloaded.
AOTI_TORCH_EXPORT AOTITorchError openreg_launch_generated(void* entry, const char* name, int32_t device,
                                                          const GeneratedValue* arguments, int64_t count);

// A new tensor on the current device, without the dispatcher. The caller owns the handle.
AOTI_TORCH_EXPORT AOTITorchError openreg_empty_strided(int64_t dimensions, const int64_t* sizes, const int64_t* strides,
                                                       int32_t dtype, AtenTensorHandle* result);
}
// LITERALINCLUDE END: generated-code-contract

}  // namespace openreg
