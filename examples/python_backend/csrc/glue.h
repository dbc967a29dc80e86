// How C++ asks Python. Each question is a function of torch_remote/answers.py; this side has the forms in which PyTorch
// calls, and what belongs to a thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <type_traits>

namespace remote {

namespace py = pybind11;

constexpr c10::DeviceType kRemote = c10::kPrivateUse1;

// The module that answers. Never destroyed: PyTorch may ask until the process has ended.
py::object& host();

// LITERALINCLUDE START: remote-ask
// Calls a function of the module. What it raises comes out of PyTorch as the same Python exception.
template <class Result = void, class... Arguments>
Result ask(const char* name, Arguments... arguments) {
  const py::gil_scoped_acquire gil;
  const py::object answer = host().attr(name)(arguments...);
  if constexpr (!std::is_void_v<Result>) {
    return answer.cast<Result>();
  }
}

// For destructors, which must not throw: Python prints what went wrong, and an error on its way stays as it is. While
// the interpreter ends, nobody can be told.
template <class... Arguments>
void tell(const char* name, Arguments... arguments) noexcept {
  if (Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0) {
    return;  // NOT PROVEN: takes a tensor that C++ keeps to the end
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

// The current device of this thread, and its current stream on a device.
c10::DeviceIndex current_device();
int64_t current_stream(c10::DeviceIndex index);

// Gives a storage more or less memory, at another address.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace remote
