// OpenCL's C interface, with reference-counted handles, and its errors mapped to the driver's.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <string>
#include <utility>
#include <vector>

#include "../error.h"
#include "process.h"

namespace openreg::driver::opencl {

// LITERALINCLUDE START: opencl-handles
// An owning reference to a reference-counted OpenCL object. After the exit handler has run nothing is released: the
// platform's own static destructors may have run.
template <class Handle, auto Retain, auto Release>
class Counted {
 public:
  Counted() = default;
  explicit Counted(Handle owned) : handle_(owned) {}  // takes over the caller's reference
  Counted(const Counted& other) : handle_(other.handle_) {
    if (handle_ != nullptr) Retain(handle_);
  }
  Counted(Counted&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Counted& operator=(Counted other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Counted() {
    if (handle_ != nullptr && !process_has_ended()) Release(handle_);
  }

  [[nodiscard]] Handle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  Handle handle_ = nullptr;
};

using ClEvent = Counted<cl_event, clRetainEvent, clReleaseEvent>;
using ClQueue = Counted<cl_command_queue, clRetainCommandQueue, clReleaseCommandQueue>;
using ClBuffer = Counted<cl_mem, clRetainMemObject, clReleaseMemObject>;
using ClProgram = Counted<cl_program, clRetainProgram, clReleaseProgram>;
using ClKernel = Counted<cl_kernel, clRetainKernel, clReleaseKernel>;
// LITERALINCLUDE END: opencl-handles

// The name of a status, such as "CL_OUT_OF_RESOURCES"; "an unknown error" for unknown numbers.
const char* cl_error_name(cl_int status) noexcept;

// Fails with the driver error that the status of an OpenCL function maps to.
orError_t fail_cl(cl_int status, const char* function) noexcept;

// A property of a device; `otherwise` if the platform does not know it.
template <class Value>
Value device_info(cl_device_id device, cl_device_info question, Value otherwise = Value{}) {
  Value value = otherwise;
  return clGetDeviceInfo(device, question, sizeof(value), &value, nullptr) == CL_SUCCESS ? value : otherwise;
}
std::string device_text(cl_device_id device, cl_device_info question);
std::string platform_name(cl_platform_id platform);
bool has_extension(cl_device_id device, const char* name);

// Whether a command has ended, successfully or not.
bool has_ended(const ClEvent& event) noexcept;

}  // namespace openreg::driver::opencl
