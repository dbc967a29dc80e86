// The bridge to Python: what torch_openreg's Python files call. Nothing here decides anything; each entry is one call
// into the runtime.
//
// An entry that may wait for the device gives up the GIL while it does: see Note [Threads and the GIL].
#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Generator.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/pybind.h>

#include <map>

#include "aten/fallback/policy.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/properties.h"
#include "runtime/sleep.h"
#include "runtime/stream.h"
#include "runtime/tensor_meta.h"
#include "runtime/wait.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: bridge-init
// Makes the devices ready, and lets PyTorch forget in forked children that they are: there, the first use of a device
// calls _lazy_init again, which says what to do instead.
void init() {
  at::globalContext().lazyInitDevice(c10::kPrivateUse1);
  torch::utils::register_fork_handler_for_device_init(c10::kPrivateUse1);
}
// LITERALINCLUDE END: bridge-init

// LITERALINCLUDE START: bridge-signals
// Runs the handlers of signals that have arrived; that of Ctrl-C raises KeyboardInterrupt. Called by waits, without the
// GIL, and also after the interpreter has ended.
void check_signals() {
  if (Py_IsInitialized() == 0) {
    return;  // NOT PROVEN: takes a static object that waits for the device in its destructor
  }
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}
// LITERALINCLUDE END: bridge-signals

// LITERALINCLUDE START: bridge-default-generator
// The Python object of a device's default generator. PyTorch keeps one object per generator, so two calls return the
// same one. It is asked for by way of at::Context, which makes the device ready first.
py::object get_default_generator(int64_t index) {
  const c10::Device device(c10::kPrivateUse1, resolve_device_index(index));
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  return py::reinterpret_steal<py::object>(THPGenerator_Wrap(generator));
}
// LITERALINCLUDE END: bridge-default-generator

// LITERALINCLUDE START: bridge-memory
py::list list_memory_blocks(int64_t index) {
  py::list blocks;
  for (const Block& block : memory_blocks(index)) {
    py::dict entry;
    entry["device"] = block.device;
    entry["address"] = reinterpret_cast<uintptr_t>(block.address);
    entry["stream"] = reinterpret_cast<uintptr_t>(block.stream);
    entry["small"] = block.small;
    entry["starts_segment"] = block.previous == nullptr;
    entry["size"] = block.bytes;
    entry["requested_size"] = block.requested;
    entry["state"] = block.in_use ? "active_allocated" : block.unpassed > 0 ? "active_awaiting_free" : "inactive";
    blocks.append(std::move(entry));
  }
  return blocks;
}
// LITERALINCLUDE END: bridge-memory

// LITERALINCLUDE START: bridge-host-memory
std::map<std::string, int64_t> get_host_memory_stats() {
  const at::HostStats stats = at::getHostAllocator(c10::kPrivateUse1)->get_stats();
  std::map<std::string, int64_t> named{{"num_host_alloc", stats.num_host_alloc},
                                       {"num_host_free", stats.num_host_free}};
  const auto add = [&named](const std::string& name, const at::Stat& stat) {
    named[name + ".current"] = stat.current;
    named[name + ".peak"] = stat.peak;
    named[name + ".allocated"] = stat.allocated;
    named[name + ".freed"] = stat.freed;
  };
  add("active_requests", stats.active_requests);
  add("active_bytes", stats.active_bytes);
  add("allocations", stats.allocations);
  add("allocated_bytes", stats.allocated_bytes);
  return named;
}
// LITERALINCLUDE END: bridge-host-memory

// LITERALINCLUDE START: bridge-device-properties
// The fields of torch.openreg.DeviceProperties, as its keyword arguments.
py::dict get_device_properties(int64_t index) {
  const orDeviceProp properties = device_properties(index);
  return py::dict(py::arg("name") = std::string(properties.name), py::arg("total_memory") = properties.total_memory,
                  py::arg("major") = properties.major, py::arg("minor") = properties.minor);
}
// LITERALINCLUDE END: bridge-device-properties

FallbackPolicy policy_from_name(const std::string& name) {
  if (name == "all") {
    return FallbackPolicy::kAll;
  }
  if (name == "listed") {
    return FallbackPolicy::kListed;
  }
  if (name == "error") {
    return FallbackPolicy::kError;
  }
  throw py::value_error("openreg: a fallback policy is 'all', 'listed' or 'error', got '" + name + "'");
}

void set_named_policy(const std::string& policy, const std::vector<std::string>& operators) {
  set_fallback_policy(policy_from_name(policy), operators);
}

}  // namespace

// LITERALINCLUDE START: bridge-method-table
PYBIND11_MODULE(_C, m) {
  set_interrupt_check(&check_signals);
  m.def("_init", &init);
  m.def("_is_in_bad_fork", &is_in_bad_fork);

  m.def("_device_count", &device_count_or_zero);
  m.def("_current_device", &current_device);
  m.def("_set_device", &set_device, py::arg("device"));
  m.def("_exchange_device", &exchange_device, py::arg("device"));
  m.def("_synchronize", &synchronize_device, py::arg("device"), py::call_guard<py::gil_scoped_release>());

  m.def("_resolve_device", &resolve_device_index, py::arg("device"));

  m.def("_current_stream", &current_stream, py::arg("device"));
  m.def("_default_stream", &default_stream, py::arg("device"));
  m.def("_external_stream", &external_stream, py::arg("handle"));
  m.def("_stream_priority", &stream_priority, py::arg("stream"));

  m.def("_set_memory_fraction", &set_memory_fraction, py::arg("fraction"), py::arg("device"));
  m.def("_memory_blocks", &list_memory_blocks, py::arg("device"));
  m.def("_host_memory_stats", &get_host_memory_stats);
  m.def("_get_device_properties", &get_device_properties, py::arg("device"));
  m.def("_sleep", &sleep_on_stream, py::arg("nanoseconds"), py::call_guard<py::gil_scoped_release>());

  m.def("_get_default_generator", &get_default_generator, py::arg("device"));

  m.def("_set_fallback_policy", &set_named_policy, py::arg("policy"), py::arg("operators"));
  m.def("_fallback_stats", &fallback_stats);
  m.def("_reset_fallback_stats", &reset_fallback_stats);
  m.def("_forbids_fallback", &forbids_fallback, py::arg("tensor"));
  m.def("_set_forbids_fallback", &set_forbids_fallback, py::arg("tensor"), py::arg("forbid"));
}
// LITERALINCLUDE END: bridge-method-table

}  // namespace openreg
