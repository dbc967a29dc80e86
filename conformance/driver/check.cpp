// What the checks have in common.
#include "check.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace conformance {

std::atomic<const char*>* last_call = nullptr;
Driver driver;

void Driver::load(const char* path) {
  void* const library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) fail(std::string("the library ") + path + " can be loaded", dlerror());
  const auto find = [library](auto& function) { function.find(dlsym, library); };
  for_each_required(find);
  for_each_optional(find);
}

std::vector<Check> all_checks() {
  struct Group {
    std::span<const Check> (*checks)();
    const char* chapter;
  };
  static constexpr Group kGroups[] = {
      {interface_checks, "driver"},
      {error_checks, "driver_process"},
      {device_checks, "driver_process"},
      {property_checks, "driver"},
      {memory_checks, "driver_memory"},
      {copy_checks, "driver_copies"},
      {stream_checks, "driver_streams"},
      {event_checks, "driver_streams"},
      {kernel_checks, "driver_kernels"},
      {thread_checks, "driver_streams"},
      {process_checks, "driver_process"},
      {limit_checks, "driver_memory"},
      {module_checks, "driver_modules"},
      {launch_checks, "driver_modules"},
      {extended_memory_checks, "driver_copies"},
      {host_function_checks, "driver_kernels"},
      {peer_checks, "driver_kernels"},
      {sharing_checks, "driver_sharing"},
      {graph_checks, "graph"},
      {activity_checks, "driver_kernels"},
      {failure_checks, "driver_kernels"},
      {host_kernel_checks, "driver_kernels"},
  };
  std::vector<Check> checks;
  for (const Group& group : kGroups) {
    for (Check check : group.checks()) {
      check.chapter = group.chapter;
      checks.push_back(check);
    }
  }
  return checks;
}

void fail(std::string expected, std::string seen, Where where) {
  throw Failed{std::move(expected), std::move(seen), where};
}

void not_offered(std::string reason) { throw NotOffered{std::move(reason)}; }

std::string error_name(orError_t error) {
  const char* const name = driver.orGetErrorName.exists() ? driver.orGetErrorName(error) : nullptr;
  return name != nullptr ? name : "error " + std::to_string(static_cast<int>(error));
}

namespace {

// The error of the call before, with the driver's own text.
std::string describe(orError_t error) {
  const std::string name = error_name(error);
  const char* const detail = driver.orGetErrorDetail.exists() ? driver.orGetErrorDetail() : nullptr;
  return error == orSuccess || detail == nullptr || *detail == '\0' ? name : name + " (" + detail + ")";
}

}  // namespace

void ok(orError_t error, Where where) {
  const std::string function = last_call->load();
  if (error != orSuccess) fail("orSuccess from " + function, describe(error), where);
}

void offered(orError_t error, const char* what, Where where) {
  const std::string function = last_call->load();
  if (error == orErrorNotSupported) not_offered(std::string(what) + ": " + function + " answers orErrorNotSupported");
  ok(error, where);
}

void refused(orError_t expected, orError_t error, const std::string& given, Where where) {
  const std::string function = last_call->load();
  if (error != expected) fail(error_name(expected) + " from " + function + ", given " + given, describe(error), where);
}

bool refused_as_freed(orError_t error, std::initializer_list<orError_t> or_else, const std::string& given,
                      Where where) {
  if (error == orErrorFreedPointer) return true;
  const std::string function = last_call->load();
  const std::string seen = describe(error);
  std::string expected = error_name(orErrorFreedPointer);
  if (properties_of(0, where).has_unified_memory != 0) {
    for (const orError_t other : or_else) {
      if (error == other) return false;
      expected += " or " + error_name(other);
    }
  }
  fail(expected + " from " + function + ", given " + given, seen, where);
}

void expect(bool holds, const std::string& claim, const std::string& seen, Where where) {
  if (!holds) fail(claim, seen, where);
}

void expect_equal(int64_t expected, int64_t seen, const std::string& what, Where where) {
  if (expected != seen) fail(what + " is " + std::to_string(expected), std::to_string(seen), where);
}

std::vector<Part> optional_parts() {
  const Driver& d = driver;
  return {
      {"modules",
       "openreg_modules.h",
       {d.orModuleLoad, d.orModuleUnload, d.orModuleGetFunction, d.orFunctionGetAttributes, d.orLaunchFunction}},
      {"binaries of modules", "openreg_modules.h", {d.orModuleGetBinary}},
      {"fills with a pattern", "openreg_extended.h", {d.orFillAsync}},
      {"2-D copies", "openreg_extended.h", {d.orMemcpy2DAsync}},
      {"registered host memory", "openreg_extended.h", {d.orHostRegister, d.orHostUnregister}},
      {"stream-ordered memory", "openreg_extended.h", {d.orMallocAsync, d.orFreeAsync}},
      {"host functions", "openreg_extended.h", {d.orLaunchHostFunction}},
      {"peer access",
       "openreg_extended.h",
       {d.orDeviceCanAccessPeer, d.orDeviceEnablePeerAccess, d.orDeviceDisablePeerAccess}},
      {"shared memory",
       "openreg_ipc.h",
       {d.orMallocShareable, d.orIpcGetMemoryHandle, d.orIpcOpenMemoryHandle, d.orIpcCloseMemory}},
      {"shared events", "openreg_ipc.h", {d.orIpcGetEventHandle, d.orIpcOpenEventHandle}},
      {"graphs",
       "openreg_graph.h",
       {d.orStreamBeginCapture, d.orStreamEndCapture, d.orStreamGetCaptureInfo, d.orGraphInstantiate, d.orGraphLaunch,
        d.orGraphDestroy, d.orGraphExecDestroy}},
      {"graphs in the DOT language", "openreg_graph.h", {d.orGraphDebugDotPrint}},
      {"activity", "openreg_activity.h", {d.orActivityStart, d.orActivityStop, d.orActivitySetCorrelation}},
  };
}

void need(const char* name) {
  const auto parts = optional_parts();
  const auto part =
      std::find_if(parts.begin(), parts.end(), [name](const Part& one) { return std::string_view(one.name) == name; });
  if (part == parts.end()) fail("a part of the optional headers", name);
  const auto exists = [](const Presence& function) { return function.exists; };
  const auto absent = std::find_if_not(part->functions.begin(), part->functions.end(), exists);
  if (absent == part->functions.end()) return;
  if (std::none_of(part->functions.begin(), part->functions.end(), exists)) {
    not_offered(std::string(name) + ": the library has no " + part->functions.front().name + " of " + part->header);
  }
  throw Missing{absent->name};
}

orDeviceProp properties_of(int device, Where where) {
  orDeviceProp properties{};
  ok(driver.orGetDeviceProperties(&properties, device), where);
  return properties;
}

int device_count() {
  int count = 0;
  ok(driver.orGetDeviceCount(&count));
  return count;
}

void need_two_devices() {
  if (device_count() < 2) not_offered("a second device: orGetDeviceCount says that there is one");
}

void* pinned(size_t bytes, Where where) {
  void* pointer = nullptr;
  offered(driver.orMallocHost(&pointer, bytes), "pinned memory", where);
  expect(pointer != nullptr, "a pointer from orMallocHost", "null and orSuccess", where);
  return pointer;
}

std::byte* device_memory(size_t bytes, Where where) {
  void* pointer = nullptr;
  ok(driver.orMalloc(&pointer, bytes), where);
  expect(pointer != nullptr || bytes == 0, "a pointer from orMalloc", "null and orSuccess", where);
  return static_cast<std::byte*>(pointer);
}

orStream_t new_stream(Where where) {
  orStream_t stream = nullptr;
  ok(driver.orStreamCreate(&stream), where);
  expect(stream != nullptr, "a handle from orStreamCreate", "null, which is the default stream", where);
  return stream;
}

orStream_t default_stream(int device, Where where) {
  orStream_t stream = nullptr;
  ok(driver.orDeviceGetDefaultStream(&stream, device), where);
  return stream;
}

orEvent_t new_event(unsigned flags, Where where) {
  orEvent_t event = nullptr;
  ok(driver.orEventCreateWithFlags(&event, flags), where);
  return event;
}

std::vector<std::byte> pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> result(bytes);
  // The period is a prime, so that a block of any usual size that is missing or doubled shows.
  for (size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>((i + seed) % 251 + 1);
  return result;
}

void upload(void* device, const std::vector<std::byte>& bytes, Where where) {
  ok(driver.orMemcpy(device, bytes.data(), bytes.size(), orMemcpyHostToDevice), where);
}

std::vector<std::byte> download(const void* device, size_t bytes, Where where) {
  std::vector<std::byte> result(bytes);
  ok(driver.orMemcpy(result.data(), device, bytes, orMemcpyDeviceToHost), where);
  return result;
}

void expect_bytes(const std::vector<std::byte>& expected, const std::vector<std::byte>& seen, const std::string& what,
                  Where where) {
  size_t wrong = 0;
  size_t first = 0;
  for (size_t i = expected.size(); i > 0; --i) {
    if (expected[i - 1] != seen[i - 1]) {
      ++wrong;
      first = i - 1;
    }
  }
  if (wrong == 0) return;
  char text[160];
  std::snprintf(text, sizeof(text), "%zu of them differ; the first is byte %zu: 0x%02x, where 0x%02x was written",
                wrong, first, std::to_integer<unsigned>(seen[first]), std::to_integer<unsigned>(expected[first]));
  fail(what + ", all " + std::to_string(expected.size()) + " bytes", text, where);
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Busy::Busy(orStream_t stream, milliseconds duration, Where where) : duration_(duration) {
  orKernel_t kernel = nullptr;
  offered(driver.orGetKernel(&kernel, "sleep"),
          "a kernel that keeps a stream busy, without which nothing is to be seen", where);
  const uint64_t nanoseconds = std::chrono::nanoseconds(duration).count();
  end_ = Clock::now() + duration;
  ok(driver.orLaunchKernel(kernel, &nanoseconds, sizeof(nanoseconds), stream), where);
}

void Busy::must_be_over(const std::string& claim, Where where) const {
  const double early = -milliseconds_since(end_);
  if (early <= 0) return;
  char text[200];
  std::snprintf(text, sizeof(text), "%s, %.0f ms before a kernel that sleeps for %lld ms can have ended", claim.c_str(),
                early, static_cast<long long>(duration_.count()));
  fail("work ends before the driver says so", text, where);
}

void Busy::need_asynchronous(const char* call) const {
  if (!surely_runs()) {
    not_offered(std::string("work behind the caller's back: ") + call +
                " returned when the sleeping kernel could have ended");
  }
}

}  // namespace conformance
