// OpenCL's errors, with their names and the driver errors that they map to, and the properties of its devices.
#include "opencl.h"

#include <algorithm>
#include <array>

namespace openreg::driver::opencl {
namespace {

struct ClError {
  cl_int status;
  const char* name;
  orError_t error;
};

// Errors that a backend can act on have their own driver error: out of memory, code that does not compile, a lost
// device. Everything else is an argument that this driver should have rejected itself.
constexpr std::array kClErrors = {
    ClError{CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND", orErrorInitialization},
    ClError{CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE", orErrorDeviceLost},
    ClError{CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE", orErrorNotSupported},
    ClError{CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE", orErrorMemoryAllocation},
    ClError{CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES", orErrorMemoryAllocation},
    ClError{CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY", orErrorMemoryAllocation},
    ClError{CL_PROFILING_INFO_NOT_AVAILABLE, "CL_PROFILING_INFO_NOT_AVAILABLE", orErrorNotSupported},
    ClError{CL_MEM_COPY_OVERLAP, "CL_MEM_COPY_OVERLAP", orErrorInvalidValue},
    ClError{CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE", orErrorCompilation},
    ClError{CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
            orErrorLaunchFailure},
    ClError{CL_COMPILE_PROGRAM_FAILURE, "CL_COMPILE_PROGRAM_FAILURE", orErrorCompilation},
    ClError{CL_LINKER_NOT_AVAILABLE, "CL_LINKER_NOT_AVAILABLE", orErrorNotSupported},
    ClError{CL_LINK_PROGRAM_FAILURE, "CL_LINK_PROGRAM_FAILURE", orErrorCompilation},
    ClError{CL_DEVICE_PARTITION_FAILED, "CL_DEVICE_PARTITION_FAILED", orErrorInitialization},
    ClError{CL_INVALID_VALUE, "CL_INVALID_VALUE", orErrorInvalidValue},
    ClError{CL_INVALID_PLATFORM, "CL_INVALID_PLATFORM", orErrorInitialization},
    ClError{CL_INVALID_DEVICE, "CL_INVALID_DEVICE", orErrorInitialization},
    ClError{CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT", orErrorInvalidValue},
    ClError{CL_INVALID_QUEUE_PROPERTIES, "CL_INVALID_QUEUE_PROPERTIES", orErrorNotSupported},
    ClError{CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE", orErrorInvalidValue},
    ClError{CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT", orErrorInvalidValue},
    ClError{CL_INVALID_BINARY, "CL_INVALID_BINARY", orErrorCompilation},
    ClError{CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS", orErrorCompilation},
    ClError{CL_INVALID_PROGRAM, "CL_INVALID_PROGRAM", orErrorInvalidValue},
    ClError{CL_INVALID_PROGRAM_EXECUTABLE, "CL_INVALID_PROGRAM_EXECUTABLE", orErrorCompilation},
    ClError{CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME", orErrorInvalidValue},
    ClError{CL_INVALID_KERNEL, "CL_INVALID_KERNEL", orErrorInvalidValue},
    ClError{CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX", orErrorInvalidValue},
    ClError{CL_INVALID_ARG_VALUE, "CL_INVALID_ARG_VALUE", orErrorInvalidValue},
    ClError{CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE", orErrorInvalidValue},
    ClError{CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS", orErrorInvalidValue},
    ClError{CL_INVALID_WORK_DIMENSION, "CL_INVALID_WORK_DIMENSION", orErrorInvalidValue},
    ClError{CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE", orErrorInvalidValue},
    ClError{CL_INVALID_WORK_ITEM_SIZE, "CL_INVALID_WORK_ITEM_SIZE", orErrorInvalidValue},
    ClError{CL_INVALID_EVENT_WAIT_LIST, "CL_INVALID_EVENT_WAIT_LIST", orErrorInvalidValue},
    ClError{CL_INVALID_EVENT, "CL_INVALID_EVENT", orErrorInvalidValue},
    ClError{CL_INVALID_OPERATION, "CL_INVALID_OPERATION", orErrorNotSupported},
    ClError{CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE", orErrorMemoryAllocation},
    ClError{CL_INVALID_GLOBAL_WORK_SIZE, "CL_INVALID_GLOBAL_WORK_SIZE", orErrorInvalidValue},
    ClError{CL_INVALID_DEVICE_PARTITION_COUNT, "CL_INVALID_DEVICE_PARTITION_COUNT", orErrorInitialization},
};

const ClError* find_error(cl_int status) noexcept {
  const auto* const found = std::ranges::find(kClErrors, status, &ClError::status);
  return found != kClErrors.end() ? found : nullptr;
}

}  // namespace

const char* cl_error_name(cl_int status) noexcept {
  const ClError* const found = find_error(status);
  return found != nullptr ? found->name : "an unknown error";
}

orError_t fail_cl(cl_int status, const char* function) noexcept {
  const ClError* const found = find_error(status);
  return fail(found != nullptr ? found->error : orErrorLaunchFailure, "%s answered %s (%d)", function,
              cl_error_name(status), status);
}

std::string device_text(cl_device_id device, cl_device_info question) {
  size_t bytes = 0;
  if (clGetDeviceInfo(device, question, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (clGetDeviceInfo(device, question, bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  return text.c_str();  // without the terminating null
}

std::string platform_name(cl_platform_id platform) {
  char name[256] = "";
  return clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name), name, nullptr) == CL_SUCCESS ? name : "";
}

bool has_extension(cl_device_id device, const char* name) {
  return (' ' + device_text(device, CL_DEVICE_EXTENSIONS) + ' ').find(std::string(" ") + name + ' ') !=
         std::string::npos;
}

bool has_ended(const ClEvent& event) noexcept {
  if (!event || process_has_ended()) return true;
  cl_int status = CL_COMPLETE;
  return clGetEventInfo(event.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr) !=
             CL_SUCCESS ||
         status <= CL_COMPLETE;
}

}  // namespace openreg::driver::opencl
