// How C++ calls Python. Each call is a function of torch_remote/answers.py; this side implements PyTorch's interfaces
// and holds the per-thread state.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pythoncapi_compat.h>

#include <cstdint>
#include <type_traits>

namespace remote {

namespace py = pybind11;

constexpr c10::DeviceType kRemote = c10::kPrivateUse1;

// The Python module. Never destroyed: PyTorch may call it until the process has ended.
py::object& host();

// LITERALINCLUDE START: remote-ask
// Calls a function of the module. What it raises leaves PyTorch as the same Python exception.
template <class Result = void, class... Arguments>
Result ask(const char* name, Arguments... arguments) {
  const py::gil_scoped_acquire gil;
  const py::object answer = host().attr(name)(arguments...);
  if constexpr (!std::is_void_v<Result>) {
    return answer.cast<Result>();
  }
}

// For destructors, which must not throw: Python prints what went wrong, and a pending Python error is preserved. Does
// nothing while the interpreter shuts down.
template <class... Arguments>
void tell(const char* name, Arguments... arguments) noexcept {
  if (Py_IsInitialized() == 0 || Py_IsFinalizing() != 0) {
    return;  // NOT PROVEN: needs a tensor that C++ keeps to the end
  }
  const py::gil_scoped_acquire gil;
  const py::error_scope kept;
  try {
    host().attr(name)(arguments...);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable(name);
  }
}
// LITERALINCLUDE END: remote-ask

// This thread's current device, and its current stream on a device.
c10::DeviceIndex current_device();
int64_t current_stream(c10::DeviceIndex index);

// Resizes a storage, which moves it to another address.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace remote
