// Converts records into what Kineto writes into a trace.
#pragma once

#include <libkineto.h>
#include <output_base.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "profiler/recorder.h"

namespace openreg {

// LITERALINCLUDE START: trace-builder
// Makes one activity from each record whose type is wanted, and logs it.
class TraceBuilder {
 public:
  // `find` returns PyTorch's own activity of an operator, or null: it attributes a kernel to an operator.
  TraceBuilder(std::set<libkineto::ActivityType> wanted, libkineto::getLinkedActivityCallback find);

  void add(const Recording& recording, libkineto::ActivityLogger& logger);

  // For Kineto, which keeps the activities as long as the trace, and names the rows.
  [[nodiscard]] std::unique_ptr<libkineto::CpuTraceBuffer> take_buffer() { return std::move(buffer_); }
  [[nodiscard]] std::vector<libkineto::ResourceInfo> take_streams() { return std::move(streams_); }

 private:
  using Activity = libkineto::GenericTraceActivity;
  struct Span {
    int64_t begin;
    int64_t end;
  };
  // A device, one of its rows, and a user's range.
  using SpanKey = std::tuple<int, int32_t, uint32_t>;

  [[nodiscard]] bool is_wanted(libkineto::ActivityType type) const { return wanted_.count(type) > 0; }
  Activity& keep(std::unique_ptr<Activity> made, int64_t begin, int64_t end, uint32_t operation);
  void add_host_record(const HostRecord& record, bool has_queued);
  void add_device_record(const DeviceRecord& record, bool has_call);
  void add_streams(const Recording& recording);
  void add_ranges(const std::map<SpanKey, Span>& spans);
  static void add_arrow(Activity* activity, uint32_t call, bool is_start);

  const std::set<libkineto::ActivityType> wanted_;
  const libkineto::getLinkedActivityCallback find_;
  std::set<int> named_;  // the devices whose row has its name
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::vector<libkineto::ResourceInfo> streams_;
};
// LITERALINCLUDE END: trace-builder

}  // namespace openreg
