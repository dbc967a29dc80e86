// Bindings of generated code, the calls of its kernels and the memory for their results:
// torch_openreg/compile/kernel.py names them.
#include "aten/compiled_kernel.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>

#include "aten/factories.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: compiled-kernel-binding
CompiledValue compiled_value(py::handle argument) {
  if (THPVariable_Check(argument.ptr())) return THPVariable_Unpack(argument.ptr());
  if (PyLong_Check(argument.ptr())) return argument.cast<int64_t>();
  if (PyFloat_Check(argument.ptr())) return argument.cast<double>();
  throw py::type_error("openreg: a generated kernel takes tensors, int and float, not " +
                       std::string(Py_TYPE(argument.ptr())->tp_name));
}

void launch_compiled_from_python(uintptr_t entry, std::string name, c10::DeviceIndex device, const py::tuple& values) {
  CompiledCall call{reinterpret_cast<CompiledEntry>(entry), std::move(name), device, {}};
  call.arguments.reserve(values.size());
  for (const py::handle value : values) {
    call.arguments.push_back(compiled_value(value));
  }
  const py::gil_scoped_release unlocked;  // a launch may wait for room in the stream's queue
  launch_compiled(call);
}
// LITERALINCLUDE END: compiled-kernel-binding

// LITERALINCLUDE START: compiled-allocation
// torch.empty_strided on the current device, without the dispatcher. Generated code allocates each buffer by it.
at::Tensor empty_strided_from_python(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return new_strided_tensor(sizes, strides, at::device(c10::kPrivateUse1).dtype(dtype));
}
// LITERALINCLUDE END: compiled-allocation

const Bindings compiled_kernel_bindings([](py::module_& m) {
  m.def("_launch_compiled", &launch_compiled_from_python, py::arg("entry"), py::arg("name"), py::arg("device"),
        py::arg("arguments"));
  m.def("_can_launch_compiled", &can_launch_compiled);
  m.def("_empty_strided", &empty_strided_from_python, py::arg("sizes"), py::arg("strides"), py::arg("dtype"),
        py::call_guard<py::gil_scoped_release>());
});

}  // namespace
}  // namespace openreg
