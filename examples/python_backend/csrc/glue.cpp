// All of the C++ as one translation unit, so that PyTorch's headers are read once, and the module that Python imports.
#include "allocator.cpp"
#include "guard.cpp"
#include "hooks.cpp"

#include <torch/csrc/Generator.h>

namespace remote {

py::object& host() {
  static auto* const module = new py::object();
  return *module;
}

// LITERALINCLUDE START: remote-glue-module
PYBIND11_MODULE(torch_remote_glue, m) {
  m.def("register", [](py::object answers) {
    host() = std::move(answers);
    at::RegisterPrivateUse1HooksInterface(new Hooks());
  });
  m.def("default_generator", [](int index) {
    const auto& hooks = at::detail::getPrivateUse1Hooks();
    return py::reinterpret_steal<py::object>(
        THPGenerator_Wrap(hooks.getDefaultGenerator(static_cast<c10::DeviceIndex>(index))));
  });
  m.def("current_device", [] { return static_cast<int>(current_device()); });
  m.def("current_stream", [](int index) { return current_stream(static_cast<c10::DeviceIndex>(index)); });
}
// LITERALINCLUDE END: remote-glue-module

}  // namespace remote
