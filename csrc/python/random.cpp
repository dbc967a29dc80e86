// Bindings of the default generators: torch_openreg/openreg/random.py calls them.
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Generator.h>

#include "python/bindings.h"
#include "runtime/device.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-default-generator
// The Python object of a device's default generator. PyTorch keeps one object per generator, so two calls return the
// same one. It comes from at::Context, which initializes the device first.
py::object get_default_generator(int64_t index) {
  const c10::Device device(c10::kPrivateUse1, resolve_device_index(index));
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  return py::reinterpret_steal<py::object>(THPGenerator_Wrap(generator));
}

const Bindings random_bindings([](py::module_& m) {
  m.def("_get_default_generator", &get_default_generator, py::arg("device"));
});
// LITERALINCLUDE END: bridge-default-generator

}  // namespace
}  // namespace openreg
