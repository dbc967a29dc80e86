// The device in torch.profiler: what Kineto, the library behind it, calls to record and to build a trace. Called on the
// thread that starts or stops a profile; the numbers of operators arrive on every thread that is profiled.
#include <c10/util/Exception.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <exception>
#include <iomanip>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "profiler/operations.h"
#include "profiler/recorder.h"
#include "profiler/trace_builder.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/properties.h"

namespace openreg {
namespace {

using libkineto::ActivityType;

// LITERALINCLUDE START: kineto-session
// One profile, from its start until the trace is built. No exception may leave it: Kineto throws and catches none, and
// would stay half started. A failure becomes a warning, and the trace lacks the device.
class TraceSession final : public libkineto::IActivityProfilerSession {
 public:
  TraceSession(std::set<ActivityType> wanted, size_t most_records)
      : wanted_(std::move(wanted)), most_records_(most_records) {}

  void start() override;
  void stop() override;

  void processTrace(libkineto::ActivityLogger& logger) override {  // NOT PROVEN: Kineto calls the form below
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);  // NOT PROVEN: as above
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback find, int64_t begin,
                    int64_t end) override;

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return std::move(streams_); }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }  // see FirstOfDevice
  std::string getDeviceProperties() override;
  std::vector<std::string> errors() override { return errors_; }  // NOT PROVEN: Kineto does not call it in this release

  void pushCorrelationId(uint64_t id) override { enter_operator(id); }
  void popCorrelationId() override { leave_operator(); }
  void pushUserCorrelationId(uint64_t id) override { enter_range(id); }
  void popUserCorrelationId() override { leave_range(); }

 private:
  void fail(const std::string& what);

  const std::set<ActivityType> wanted_;
  const size_t most_records_;
  Recording recording_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::vector<libkineto::ResourceInfo> streams_;
  std::vector<std::string> errors_;
};
// LITERALINCLUDE END: kineto-session

// LITERALINCLUDE START: kineto-start-and-stop
void TraceSession::fail(const std::string& what) {
  TORCH_WARN(what);
  errors_.push_back(what);
  status_ = libkineto::TraceStatus::ERROR;
}

void TraceSession::start() {
  try {
    start_recording(most_records_);
    status_ = libkineto::TraceStatus::RECORDING;
  } catch (const c10::Error& error) {
    fail(std::string("openreg: this profile lacks the device: ") + error.what_without_backtrace());
  }
}

void TraceSession::stop() {
  if (status_ != libkineto::TraceStatus::RECORDING) return;
  recording_ = stop_recording();
  status_ = libkineto::TraceStatus::PROCESSING;
  if (recording_.dropped > 0) {
    fail("openreg: this profile lacks " + std::to_string(recording_.dropped) +
         " records of the device and its calls: " + "it keeps " + std::to_string(most_records_) +
         "; profile fewer steps, or set custom_profiler_config");
  }
}
// LITERALINCLUDE END: kineto-start-and-stop

// LITERALINCLUDE START: kineto-process
// Ignores the times: work that was queued while the profile ran belongs to it, even if it ran later.
void TraceSession::processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback find, int64_t,
                                int64_t) {
  try {
    TraceBuilder builder(wanted_, std::move(find));
    builder.add(recording_, logger);
    buffer_ = builder.take_buffer();
    streams_ = builder.take_streams();
  } catch (const std::exception& error) {
    fail(std::string("openreg: this profile lacks the device: ") + error.what());  // NOT PROVEN: exhausts memory
  }
  recording_ = {};
}
// LITERALINCLUDE END: kineto-process

// LITERALINCLUDE START: kineto-device-properties
// The trace's entry deviceProperties: JSON objects, separated by commas.
std::string TraceSession::getDeviceProperties() {
  std::ostringstream objects;
  for (c10::DeviceIndex index = 0; index < device_count_or_zero(); ++index) {
    const orDeviceProp properties = device_properties(index);
    // std::quoted puts a backslash before quotes and backslashes, as JSON requires.
    objects << (index == 0 ? "" : ", ") << "{\"id\": " << int{index} << ", \"name\": " << std::quoted(properties.name)
            << ", \"totalGlobalMem\": " << properties.total_memory << ", \"numSms\": " << properties.compute_units
            << "}";
  }
  return objects.str();
}
// LITERALINCLUDE END: kineto-device-properties

// LITERALINCLUDE START: kineto-profiler
// Room for a million kernels with their calls, and as many copies.
constexpr size_t kMostRecords = size_t{1} << 22;

// The number in _ExperimentalConfig(custom_profiler_config='{"records": 1000}'). Kineto drops a text with an "=" in it.
size_t records_of(const std::string& config) {
  if (config.empty()) return kMostRecords;
  static const std::regex asked("\"records\"\\s*:\\s*(\\d{1,18})\\s*[,}]");
  std::smatch found;
  if (std::regex_search(config, found, asked)) return std::stoull(found[1]);
  TORCH_WARN("openreg: custom_profiler_config asks for no number of records: write {\"records\": 1000}, got '", config,
             "'; this profile keeps ", kMostRecords);
  return kMostRecords;
}

class DeviceProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }  // NOT PROVEN: Kineto does not call it in this release
  const std::set<ActivityType>& availableActivities() const override { return available_; }  // NOT PROVEN: as above

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& asked,
                                                                 const libkineto::Config& config) override;
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& asked,
                                                                 const libkineto::Config& config) override {
    return configure(asked, config);
  }

 private:
  const std::string name_ = "openreg";
  const std::set<ActivityType> available_ = {ActivityType::CONCURRENT_KERNEL,   ActivityType::GPU_MEMCPY,
                                             ActivityType::GPU_MEMSET,          ActivityType::GPU_USER_ANNOTATION,
                                             ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::PRIVATEUSE1_DRIVER};
};
// LITERALINCLUDE END: kineto-profiler

void warn_of_no_record() {
  TORCH_WARN(
      "openreg: this profile lacks the device: its driver does not record what runs (it has no orActivityStart). "
      "torch.autograd.profiler.profile(use_device=\"openreg\") measures by events");
}

// LITERALINCLUDE START: kineto-configure
// Kineto calls this at the start of every profile, even one of the host alone: the types of driver calls and of ranges
// are among the host's. A type of the device makes it a profile of the device.
std::unique_ptr<libkineto::IActivityProfilerSession> DeviceProfiler::configure(const std::set<ActivityType>& asked,
                                                                               const libkineto::Config& config) {
  std::set<ActivityType> wanted;
  bool of_device = false;
  for (const ActivityType type : available_) {
    if (asked.count(type) == 0) continue;
    wanted.insert(type);
    of_device = of_device || (type != ActivityType::PRIVATEUSE1_RUNTIME && type != ActivityType::PRIVATEUSE1_DRIVER);
  }
  if (!of_device) return nullptr;
  if (!can_record()) {
    warn_of_no_record();  // NOT PROVEN: requires another driver, as in tests/profiler/test_without_record.py
    return nullptr;  // NOT PROVEN: as above
  }
  return std::make_unique<TraceSession>(wanted, records_of(config.getCustomConfig()));
}
// LITERALINCLUDE END: kineto-configure

// LITERALINCLUDE START: kineto-registration
// Before or after Kineto itself starts, which is at the first profile.
REGISTER_PRIVATEUSE1_PROFILER(DeviceProfiler);
// LITERALINCLUDE END: kineto-registration

}  // namespace
}  // namespace openreg
