// Bindings of device memory, which torch_openreg/openreg/memory.py and the race detector call: blocks, the memory
// history with its stacks, and a snapshot in the form that PyTorch's viewer reads.
//
// A stack is symbolized here, which reads files and line numbers, and not when it is gathered.
#include <c10/util/ApproximateClock.h>
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "python/bindings.h"
#include "runtime/allocator.h"

namespace py = pybind11;

// Declared in torch/csrc/profiler/python/combined_traceback.h, which includes a header that PyTorch does not install.
namespace torch {
std::vector<py::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
}  // namespace torch

namespace openreg {
namespace {

using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;

// LITERALINCLUDE START: bridge-memory
py::dict describe_block(const Block& block) {
  py::dict entry;
  entry["device"] = block.device;
  entry["address"] = reinterpret_cast<uintptr_t>(block.address);
  entry["stream"] = reinterpret_cast<uintptr_t>(block.stream);
  entry["small"] = block.small;
  entry["starts_segment"] = block.previous == nullptr;
  entry["size"] = block.bytes;
  entry["requested_size"] = block.requested;
  entry["pool"] = block.pool;
  entry["state"] = block.in_use ? "active_allocated" : block.unpassed > 0 ? "active_awaiting_free" : "inactive";
  return entry;
}

py::list list_memory_blocks(int64_t index) {
  py::list blocks;
  for (const Block& block : memory_blocks(index)) blocks.append(describe_block(block));
  return blocks;
}
// LITERALINCLUDE END: bridge-memory

// LITERALINCLUDE START: bridge-history-record
// Both take the GIL for the Python frames, unless the thread has it.
Stack gather_python_stack() {
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, /*cpp=*/false);
}
Stack gather_whole_stack() { return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, /*cpp=*/true); }

// Times are taken with the cheapest clock. PyTorch converts them with what it measures at the start and again at the
// end.
c10::ApproximateClockToUnixTimeConverter& history_clock() {
  static c10::ApproximateClockToUnixTimeConverter clock;
  return clock;
}

void record_history(int stacks, bool with_cpp, size_t max_entries, bool clear, uint32_t skipped) {
  static_cast<void>(history_clock());
  record_memory_history({with_cpp ? gather_whole_stack : gather_python_stack, static_cast<RecordContext>(stacks),
                         max_entries, clear, skipped});
}
// LITERALINCLUDE END: bridge-history-record

// LITERALINCLUDE START: bridge-history-stacks
// Collects the stacks of a snapshot with the entries that receive their frames, and symbolizes all of them at once,
// since most frames are in many stacks.
class Frames {
 public:
  void put(const py::dict& entry, const Stack& stack) {
    entry["frames"] = py::list();
    if (stack != nullptr) {
      stacks_.push_back(torch::getCapturedTracebackFromContext(stack));
      entries_.push_back(entry);
    }
  }

  void symbolize() {
    const std::vector<py::object> symbolized = torch::py_symbolize(stacks_);
    for (size_t i = 0; i < entries_.size(); ++i) entries_[i]["frames"] = symbolized[i];
  }

 private:
  std::vector<torch::CapturedTraceback*> stacks_;  // owned by the snapshot that is being converted
  std::vector<py::dict> entries_;
};
// LITERALINCLUDE END: bridge-history-stacks

// LITERALINCLUDE START: bridge-history-entries
// In the order of TraceEntry::Action. The device maps no segments.
constexpr std::array kActions = {"alloc",         "free_requested", "free_completed",
                                 "segment_alloc", "segment_free",   "segment_map",
                                 "segment_unmap", "snapshot",       "oom"};

py::list list_entries(const std::vector<TraceEntry>& entries, Frames* frames) {
  const auto unix_nanoseconds = history_clock().makeConverter();
  py::list all;
  for (const TraceEntry& entry : entries) {
    py::dict shown;
    shown["action"] = kActions.at(entry.action_);
    shown[entry.action_ == TraceEntry::OOM ? "device_free" : "addr"] = entry.addr_;
    shown["size"] = entry.size_;
    shown["stream"] = reinterpret_cast<uintptr_t>(entry.stream_);
    shown["time_us"] = unix_nanoseconds(entry.time_.approx_t_) / 1000;
    shown["pool_id"] = entry.mempool_;
    frames->put(shown, entry.context_);
    all.append(shown);
  }
  return all;
}

// Returns the blocks as memory_snapshot() lists them, each with its frames and those of its segment, and the entries.
py::tuple memory_state(int64_t index) {
  HistoryCopy history;
  const std::vector<Block> blocks = memory_blocks_and_history(index, &history);
  const auto stack_at = [](const auto& stacks, const void* address) {
    const auto found = stacks.find(address);
    return found == stacks.end() ? nullptr : found->second;
  };
  Frames frames;
  py::list shown;
  for (const Block& block : blocks) {
    const py::dict entry = describe_block(block);
    const py::dict segment;
    frames.put(entry, stack_at(history.blocks, block.address));
    frames.put(segment, stack_at(history.segments, block.address));
    shown.append(py::make_tuple(entry, segment));
  }
  const py::list entries = list_entries(history.entries, &frames);
  frames.symbolize();
  return py::make_tuple(shown, entries);
}
// LITERALINCLUDE END: bridge-history-entries

// LITERALINCLUDE START: bridge-block
// The size of the block in use at an address, and the handles of the streams that were recorded for it.
std::optional<std::pair<size_t, std::vector<uintptr_t>>> recorded_streams(uint64_t address) {
  const std::optional<Block> block = memory_block(address);
  if (!block) return std::nullopt;
  std::vector<uintptr_t> streams;
  for (orStream_t stream : block->used_by) streams.push_back(reinterpret_cast<uintptr_t>(stream));
  return std::make_pair(block->bytes, streams);
}
// LITERALINCLUDE END: bridge-block

const Bindings memory_bindings([](py::module_& m) {
  m.def("_empty_cache", &empty_cache, py::call_guard<py::gil_scoped_release>());
  m.def("_set_memory_fraction", &set_memory_fraction, py::arg("fraction"), py::arg("device"));
  m.def("_memory_fraction", &memory_fraction, py::arg("device"));
  m.def("_memory_blocks", &list_memory_blocks, py::arg("device"));
  m.def("_record_memory_history", &record_history, py::arg("stacks"), py::arg("with_cpp"), py::arg("max_entries"),
        py::arg("clear"), py::arg("skipped"));
  m.def("_memory_actions", [] { return kActions; });
  m.def("_stop_memory_history", &stop_memory_history);
  m.def("_memory_state", &memory_state, py::arg("device"));
  m.def("_recorded_streams", &recorded_streams, py::arg("address"));
});

}  // namespace
}  // namespace openreg
