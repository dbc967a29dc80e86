// The functions that generated C++ calls, for handles and error codes.
#include "aten/generated_code.h"

#include <torch/csrc/inductor/aoti_torch/utils.h>
#include <torch/csrc/stable/c/shim.h>

#include <stdexcept>
#include <string>

#include "aten/compiled_kernel.h"
#include "aten/factories.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: generated-code-functions
CompiledValue compiled_value(const GeneratedValue& value) {
  switch (value.kind) {
    case GeneratedValue::Kind::tensor:
      return *torch::aot_inductor::tensor_handle_to_tensor_pointer(value.tensor);
    case GeneratedValue::Kind::integer:
      return value.integer;
    default:
      return value.real;  // NOT PROVEN: for sizes that are no integers; tests/compile/test_cpp_wrapper.py
  }
}

void launch_generated(void* entry, const char* name, int32_t device, const GeneratedValue* arguments, int64_t count) {
  CompiledCall call{reinterpret_cast<CompiledEntry>(entry), name, static_cast<c10::DeviceIndex>(device), {}};
  call.arguments.reserve(count);
  for (const GeneratedValue* each = arguments; each != arguments + count; ++each) {
    call.arguments.push_back(compiled_value(*each));
  }
  launch_compiled(call);
}

AtenTensorHandle new_strided_handle(int64_t dimensions, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  const auto options = at::device(c10::kPrivateUse1).dtype(static_cast<c10::ScalarType>(dtype));
  const auto length = static_cast<size_t>(dimensions);
  return torch::aot_inductor::new_tensor_handle(new_strided_tensor({sizes, length}, {strides, length}, options));
}

}  // namespace

void check_generated(AOTITorchError error, const char* call) {
  if (error == AOTI_TORCH_SUCCESS) return;
  const std::string message = torch_exception_get_what_without_backtrace();
  throw std::runtime_error(message.empty() ? std::string(call) + " failed" : message);
}

AOTITorchError openreg_launch_generated(void* entry, const char* name, int32_t device, const GeneratedValue* arguments,
                                        int64_t count) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(launch_generated(entry, name, device, arguments, count););
}

AOTITorchError openreg_empty_strided(int64_t dimensions, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                     AtenTensorHandle* result) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(*result = new_strided_handle(dimensions, sizes, strides, dtype););
}
// LITERALINCLUDE END: generated-code-functions

}  // namespace openreg
