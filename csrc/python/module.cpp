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
#include "aten/kernel_source.h"
#include "driver/openreg_modules.h"
#include "profiler/ranges.h"
#include "python/memory_history.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/properties.h"
#include "runtime/sleep.h"
#include "runtime/stream.h"
#include "runtime/sync_debug.h"
#include "runtime/tensor_meta.h"
#include "runtime/trace.h"
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

// LITERALINCLUDE START: bridge-trace
// A tensor or an event may die while an exception is on its way through Python.
void call_with_error_kept(c10::function_ref<void()> call) {
  if (Py_IsInitialized() == 0) {
    return;  // NOT PROVEN: takes a static object that owns a tensor
  }
  const py::gil_scoped_acquire gil;
  const py::error_scope pending;
  call();
}
// LITERALINCLUDE END: bridge-trace

// LITERALINCLUDE START: bridge-default-generator
// The Python object of a device's default generator. PyTorch keeps one object per generator, so two calls return the
// same one. It is asked for by way of at::Context, which makes the device ready first.
py::object get_default_generator(int64_t index) {
  const c10::Device device(c10::kPrivateUse1, resolve_device_index(index));
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  return py::reinterpret_steal<py::object>(THPGenerator_Wrap(generator));
}
// LITERALINCLUDE END: bridge-default-generator

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

// LITERALINCLUDE START: bridge-native
// Whether the driver takes kernels in the device's language. A function that it lacks has no address.
bool has_modules() { return &orModuleLoad != nullptr; }

std::vector<at::ScalarType> native_dtypes(const std::string& name) {
  const auto found = native_kernels().find(name);
  return found == native_kernels().end() ? std::vector<at::ScalarType>() : found->second;
}
// LITERALINCLUDE END: bridge-native

// As torch.cuda numbers them: 0 is the default, 1 warns, 2 raises.
void set_numbered_sync_mode(int mode) { set_sync_debug_mode(static_cast<SyncDebugMode>(mode)); }
int numbered_sync_mode() { return static_cast<int>(sync_debug_mode()); }

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
  set_trace_caller(&call_with_error_kept);
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
  bind_memory_history(m);
  m.def("_host_memory_stats", &get_host_memory_stats);
  m.def("_get_device_properties", &get_device_properties, py::arg("device"));
  m.def("_sleep", &sleep_on_stream, py::arg("nanoseconds"), py::call_guard<py::gil_scoped_release>());

  m.def("_range_push", &push_range, py::arg("name"));
  m.def("_range_pop", &pop_range);
  m.def("_mark", &mark, py::arg("name"));

  m.def("_get_default_generator", &get_default_generator, py::arg("device"));

  m.def("_set_sync_debug_mode", &set_numbered_sync_mode, py::arg("mode"));
  m.def("_get_sync_debug_mode", &numbered_sync_mode);

  m.def("_set_fallback_policy", &set_named_policy, py::arg("policy"), py::arg("operators"));
  m.def("_fallback_stats", &fallback_stats);
  m.def("_reset_fallback_stats", &reset_fallback_stats);
  m.def("_has_modules", &has_modules);
  m.def("_native_dtypes", &native_dtypes, py::arg("name"));
  m.def("_forbids_fallback", &forbids_fallback, py::arg("tensor"));
  m.def("_set_forbids_fallback", &set_forbids_fallback, py::arg("tensor"), py::arg("forbid"));
}
// LITERALINCLUDE END: bridge-method-table

}  // namespace openreg
