// Bindings of pinned host memory: torch_openreg/openreg/memory.py calls them.
#include <ATen/core/CachingHostAllocator.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <map>
#include <string>

#include "python/bindings.h"

namespace py = pybind11;

namespace openreg {
namespace {

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

const Bindings host_memory_bindings([](py::module_& m) {
  m.def("_host_memory_stats", &get_host_memory_stats);
  m.def("_reset_peak_host_memory_stats", [] { at::getHostAllocator(c10::kPrivateUse1)->reset_peak_stats(); });
  m.def("_reset_accumulated_host_memory_stats",
        [] { at::getHostAllocator(c10::kPrivateUse1)->reset_accumulated_stats(); });
});

}  // namespace
}  // namespace openreg
