// Bindings of devices: torch_openreg/openreg/device.py, _lazy.py and properties.py call them.
#include <ATen/Context.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <string>

#include "python/bindings.h"
#include "runtime/device.h"
#include "runtime/properties.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-init
// Initializes the devices, and makes PyTorch forget this in forked children: there, the first use of a device calls
// _lazy_init again, which says what to do instead.
void init() {
  at::globalContext().lazyInitDevice(c10::kPrivateUse1);
  torch::utils::register_fork_handler_for_device_init(c10::kPrivateUse1);
}
// LITERALINCLUDE END: bridge-init

// LITERALINCLUDE START: bridge-device-properties
// As torch.cuda writes it: 8-4-4-4-12 hexadecimal digits.
std::string uuid_text(const unsigned char (&uuid)[16]) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < sizeof(uuid); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] / 16];
    text += kDigits[uuid[i] % 16];
  }
  return text;
}

// The fields of torch.openreg.DeviceProperties, as its keyword arguments.
py::dict get_device_properties(int64_t index) {
  const orDeviceProp properties = device_properties(index);
  const auto has = [](int answer) { return answer != 0; };
  return py::dict(py::arg("name") = std::string(properties.name), py::arg("driver") = std::string(properties.driver),
                  py::arg("total_memory") = properties.total_memory,
                  py::arg("max_allocation") = properties.max_allocation,
                  py::arg("local_memory") = properties.local_memory, py::arg("major") = properties.major,
                  py::arg("minor") = properties.minor, py::arg("multi_processor_count") = properties.compute_units,
                  py::arg("max_group_size") = properties.max_group_size, py::arg("simd_width") = properties.simd_width,
                  py::arg("has_unified_memory") = has(properties.has_unified_memory),
                  py::arg("has_fp16") = has(properties.has_fp16), py::arg("has_bf16") = has(properties.has_bf16),
                  py::arg("has_fp64") = has(properties.has_fp64), py::arg("uuid") = uuid_text(properties.uuid));
}
// LITERALINCLUDE END: bridge-device-properties

const Bindings device_bindings([](py::module_& m) {
  m.def("_init", &init);
  m.def("_is_initialized", &is_initialized);
  m.def("_is_in_bad_fork", &is_in_bad_fork);
  m.def("_device_count", &device_count_or_zero);
  m.def("_current_device", &current_device);
  m.def("_set_device", &set_device, py::arg("device"));
  m.def("_exchange_device", &exchange_device, py::arg("device"));
  m.def("_synchronize", &synchronize_device, py::arg("device"), py::call_guard<py::gil_scoped_release>());
  m.def("_resolve_device", &resolve_device_index, py::arg("device"));
  m.def("_get_device_properties", &get_device_properties, py::arg("device"));
});

}  // namespace
}  // namespace openreg
