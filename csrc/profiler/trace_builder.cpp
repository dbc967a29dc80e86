// Builds Kineto's activities from a recording. Runs once a profile has stopped, on the thread that stopped it.
#include "profiler/trace_builder.h"

#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "profiler/rows.h"
#include "runtime/properties.h"

namespace openreg {
namespace {

using libkineto::ActivityType;

// LITERALINCLUDE START: trace-names
ActivityType type_of(orActivityKind kind) {
  switch (kind) {
    case orActivityMemcpy:
      return ActivityType::GPU_MEMCPY;
    case orActivityMemset:
      return ActivityType::GPU_MEMSET;
    default:
      return ActivityType::CONCURRENT_KERNEL;
  }
}

// As in CUDA's traces: tools for those sort by these names.
std::string name_of(const DeviceRecord& record) {
  if (record.kind == orActivityKernel) return record.name;
  if (record.kind == orActivityMemset) return "Memset (Device)";
  switch (record.copy_kind) {
    case orMemcpyHostToDevice:
      return "Memcpy HtoD (Host -> Device)";
    case orMemcpyDeviceToHost:
      return "Memcpy DtoH (Device -> Host)";
    default:
      return "Memcpy DtoD (Device -> Device)";
  }
}

// Not USER_ANNOTATION: PyTorch would mistake each of these for one of its own.
ActivityType type_of(HostRecord::Kind kind) {
  return kind == HostRecord::Kind::kCall ? ActivityType::PRIVATEUSE1_RUNTIME : ActivityType::PRIVATEUSE1_DRIVER;
}
// LITERALINCLUDE END: trace-names

// LITERALINCLUDE START: trace-name-of-device
// Kineto takes the name of one device from each profiler, and then names the first sixteen "GPU 0" and so on, dated at
// the start of the trace. A name logged with an activity has a later date, and wins in a viewer that goes by time.
class FirstOfDevice final : public libkineto::GenericTraceActivity {
 public:
  FirstOfDevice(const libkineto::TraceSpan& span, ActivityType type, const std::string& name, int device)
      : GenericTraceActivity(span, type, name),
        row_{device, device + libkineto::kExceedMaxPid, "openreg:" + std::to_string(device),
             device_properties(device).name} {}

  void log(libkineto::ActivityLogger& logger) const override {
    logger.handleDeviceInfo(row_, startTime);
    GenericTraceActivity::log(logger);
  }

 private:
  const libkineto::DeviceInfo row_;
};
// LITERALINCLUDE END: trace-name-of-device

}  // namespace

// LITERALINCLUDE START: trace-add
TraceBuilder::TraceBuilder(std::set<ActivityType> wanted, libkineto::getLinkedActivityCallback find)
    : wanted_(std::move(wanted)), find_(std::move(find)), buffer_(std::make_unique<libkineto::CpuTraceBuffer>()) {
  buffer_->span = libkineto::TraceSpan(0, 0, "openreg");
  buffer_->gpuOpCount = 0;
}

void TraceBuilder::add(const Recording& recording, libkineto::ActivityLogger& logger) {
  add_streams(recording);
  std::unordered_set<uint32_t> queued;  // the calls that an arrow leads from
  for (const DeviceRecord& record : recording.device) {
    if (is_wanted(type_of(record.kind))) queued.insert(record.call);
  }
  std::unordered_map<uint32_t, uint32_t> range_of_call;
  for (const HostRecord& record : recording.host) {
    if (record.call != 0) range_of_call.emplace(record.call, record.range);
    if (is_wanted(type_of(record.kind))) add_host_record(record, queued.count(record.call) > 0);
  }
  std::map<SpanKey, Span> spans;
  for (const DeviceRecord& record : recording.device) {
    const auto call = range_of_call.find(record.call);
    const bool has_call = call != range_of_call.end();
    if (is_wanted(type_of(record.kind))) add_device_record(record, has_call);
    if (!has_call || call->second == 0) continue;
    const SpanKey key{record.device, row_of(record.device, record.stream), call->second};
    Span& span = spans.try_emplace(key, Span{record.begin, record.end}).first->second;
    span = {std::min(span.begin, record.begin), std::max(span.end, record.end)};
  }
  if (is_wanted(ActivityType::GPU_USER_ANNOTATION)) add_ranges(spans);
  // Kineto keeps references to what it logs, so activities do not move from here on.
  for (const auto& activity : buffer_->activities) activity->log(logger);
}
// LITERALINCLUDE END: trace-add

// LITERALINCLUDE START: trace-make
TraceBuilder::Activity& TraceBuilder::keep(std::unique_ptr<Activity> made, int64_t begin, int64_t end,
                                           uint32_t operation) {
  made->startTime = begin;
  made->endTime = end;
  if (operation != 0) made->linked = find_(static_cast<int32_t>(operation));
  buffer_->activities.push_back(std::move(made));
  return *buffer_->activities.back();
}

// The two ends of an arrow share one number and one type, and a flag tells them apart.
void TraceBuilder::add_arrow(Activity* activity, uint32_t call, bool is_start) {
  activity->flow.id = call;
  activity->flow.type = libkineto::kLinkAsyncCpuGpu;
  activity->flow.start = is_start;
}

void TraceBuilder::add_host_record(const HostRecord& record, bool has_queued) {
  Activity& made = keep(std::make_unique<Activity>(buffer_->span, type_of(record.kind), record.name), record.begin,
                        record.end, record.operation);
  made.device = getpid();
  made.resource = record.thread;
  made.threadId = record.thread;
  if (record.kind != HostRecord::Kind::kCall) return;
  made.id = static_cast<int32_t>(record.call);
  made.addMetadata("correlation", record.call);
  if (has_queued) add_arrow(&made, record.call, true);
}
// LITERALINCLUDE END: trace-make

// LITERALINCLUDE START: trace-device
void TraceBuilder::add_device_record(const DeviceRecord& record, bool has_call) {
  const ActivityType type = type_of(record.kind);
  const bool is_first = named_.insert(record.device).second;
  std::unique_ptr<Activity> own =
      is_first ? std::make_unique<FirstOfDevice>(buffer_->span, type, name_of(record), record.device)
               : std::make_unique<Activity>(buffer_->span, type, name_of(record));
  Activity& made = keep(std::move(own), record.begin, record.end, record.operation);
  made.device = record.device;
  made.resource = row_of(record.device, record.stream);
  made.threadId = made.resource;
  made.addMetadata("device", record.device);
  made.addMetadata("stream", made.resource);
  if (has_call) {
    made.id = static_cast<int32_t>(record.call);
    made.addMetadata("correlation", record.call);
    add_arrow(&made, record.call, false);
  }
  if (record.kind != orActivityKernel) {
    made.addMetadata("bytes", record.bytes);
    // Bytes per nanosecond are gigabytes per second.
    const auto nanoseconds = static_cast<double>(std::max<int64_t>(record.end - record.begin, 1));
    made.addMetadata("memory bandwidth (GB/s)", static_cast<double>(record.bytes) / nanoseconds);
  }
  ++buffer_->gpuOpCount;
}
// LITERALINCLUDE END: trace-device

// LITERALINCLUDE START: trace-ranges
// The time of a user's range on the device: from the start of its first kernel to the end of its last.
void TraceBuilder::add_ranges(const std::map<SpanKey, Span>& spans) {
  for (const auto& [key, span] : spans) {
    const auto [device, row, range] = key;
    const libkineto::ITraceActivity* const on_host = find_(static_cast<int32_t>(range));
    if (on_host == nullptr) continue;  // the host was not recorded
    // Not linked to the range on the host: PyTorch's tables would add its time to that of the kernels inside it.
    Activity& made = keep(std::make_unique<Activity>(buffer_->span, ActivityType::GPU_USER_ANNOTATION, on_host->name()),
                          span.begin, span.end, 0);
    made.device = device;
    made.resource = row;
    made.threadId = row;
  }
}
// LITERALINCLUDE END: trace-ranges

// LITERALINCLUDE START: trace-rows
void TraceBuilder::add_streams(const Recording& recording) {
  std::set<std::pair<int, orStream_t>> used;
  for (const DeviceRecord& record : recording.device) used.emplace(record.device, record.stream);
  for (const auto& [device, stream] : used) {
    const int32_t row = row_of(device, stream);
    streams_.push_back({row, row, device, name_of_row(device, stream)});
  }
}
// LITERALINCLUDE END: trace-rows

}  // namespace openreg
