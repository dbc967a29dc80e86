// What a check is made of: a function that calls the driver and throws where an answer is not what PyTorch relies on.
// Every check runs in a process of its own and need not clean up.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "driver.h"

namespace conformance {

struct Check {
  const char* group;
  const char* name;
  const char* relies;  // what PyTorch, or this backend, relies on it for
  void (*run)();
  const char* chapter = "";  // of the guide: how the simulated driver does it
};

// All checks, group by group, in the order in which a driver is written.
std::vector<Check> all_checks();

std::span<const Check> interface_checks();
std::span<const Check> error_checks();
std::span<const Check> device_checks();
std::span<const Check> memory_checks();
std::span<const Check> copy_checks();
std::span<const Check> stream_checks();
std::span<const Check> event_checks();
std::span<const Check> kernel_checks();
std::span<const Check> thread_checks();
std::span<const Check> process_checks();
std::span<const Check> limit_checks();
std::span<const Check> failure_checks();
std::span<const Check> host_kernel_checks();
std::span<const Check> property_checks();
std::span<const Check> module_checks();
std::span<const Check> launch_checks();
std::span<const Check> extended_memory_checks();
std::span<const Check> host_function_checks();
std::span<const Check> peer_checks();
std::span<const Check> sharing_checks();
std::span<const Check> graph_checks();
std::span<const Check> activity_checks();

// ---- What a check throws ----------------------------------------------------------------------------------------

struct Failed {
  std::string expected;
  std::string seen;
  std::source_location where;
};
// The driver says that it does not have what the check is about.
struct NotOffered {
  std::string reason;
};

using Where = std::source_location;

[[noreturn]] void fail(std::string expected, std::string seen, Where where = Where::current());
// Throws NotOffered.
[[noreturn]] void not_offered(std::string reason);

// ---- What a check says about an answer --------------------------------------------------------------------------

// The call before has succeeded.
void ok(orError_t error, Where where = Where::current());
// The same for what a driver may leave out: orErrorNotSupported says that it has no `what`.
void offered(orError_t error, const char* what, Where where = Where::current());
// The call before has failed like this.
void refused(orError_t expected, orError_t error, const std::string& given, Where where = Where::current());

// Whether `error` is the answer for memory that was freed. Where the device has the host's addresses, a driver may take
// such a pointer for one of the host: then `or_else` is right too, and the result is false.
bool refused_as_freed(orError_t error, std::initializer_list<orError_t> or_else, const std::string& given,
                      Where where = Where::current());

// `claim` says what is true where the driver keeps its promise; `seen` what is the case otherwise.
void expect(bool holds, const std::string& claim, const std::string& seen, Where where = Where::current());
void expect_equal(int64_t expected, int64_t seen, const std::string& what, Where where = Where::current());

std::string error_name(orError_t error);

// ---- What a driver may leave out --------------------------------------------------------------------------------

struct Presence {
  template <class Signature>
  Presence(const Function<Signature>& function) : name(function.name()), exists(function.exists()) {}
  const char* name;
  bool exists;
};
// A part of an optional header: functions that are of use only together.
struct Part {
  const char* name;
  const char* header;
  std::vector<Presence> functions;
};
std::vector<Part> optional_parts();

// Throws NotOffered where the library has no function of the part, and Missing where it has some and not others.
void need(const char* part);
// The properties of a device.
orDeviceProp properties_of(int device, Where where = Where::current());

// ---- Devices, memory, streams -----------------------------------------------------------------------------------

int device_count();
// Throws NotOffered on a machine with one device.
void need_two_devices();
// Throws NotOffered when the driver has no pinned memory.
void* pinned(size_t bytes, Where where = Where::current());
std::byte* device_memory(size_t bytes, Where where = Where::current());
orStream_t new_stream(Where where = Where::current());
orStream_t default_stream(int device, Where where = Where::current());
orEvent_t new_event(unsigned flags = orEventDisableTiming, Where where = Where::current());

// `bytes` bytes, of which no two neighbours are equal, other ones for another seed.
std::vector<std::byte> pattern(size_t bytes, unsigned seed);
void upload(void* device, const std::vector<std::byte>& bytes, Where where = Where::current());
std::vector<std::byte> download(const void* device, size_t bytes, Where where = Where::current());
// Compares byte by byte and names the first that differs.
void expect_bytes(const std::vector<std::byte>& expected, const std::vector<std::byte>& seen, const std::string& what,
                  Where where = Where::current());

// ---- Time -------------------------------------------------------------------------------------------------------

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

double milliseconds_since(Clock::time_point start);

// A kernel that sleeps, on a stream. A driver that claims its end before that time has passed does not tell the truth:
// this holds on a slow machine too, where nothing can be said of how late something happens.
class Busy {
 public:
  // Throws NotOffered when the driver has no such kernel.
  explicit Busy(orStream_t stream, milliseconds duration = milliseconds(100), Where where = Where::current());

  // Whether the kernel cannot have finished yet.
  [[nodiscard]] bool surely_runs() const { return Clock::now() < end_; }
  // What the driver has just claimed to be finished is not: fails when the kernel surely runs.
  void must_be_over(const std::string& claim, Where where = Where::current()) const;
  // Throws NotOffered when the kernel ran before its launch returned, or before `call` returned.
  void need_asynchronous(const char* call) const;

 private:
  milliseconds duration_;
  Clock::time_point end_;  // the earliest
};

}  // namespace conformance
