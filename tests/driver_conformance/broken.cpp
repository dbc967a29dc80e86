// Drivers that are broken on purpose: each library built from this file has one defect, chosen by the macro
// DEFECT_<name>, and passes all else to the simulated driver. tests/driver_conformance/test_broken_drivers.py builds
// them.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "openreg.h"
#include "openreg_activity.h"
#include "openreg_extended.h"
#include "openreg_graph.h"
#include "openreg_ipc.h"
#include "openreg_modules.h"

namespace {

// The function of this name in the underlying driver.
template <class Signature>
Signature* below(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "broken driver: %s\n", dlerror());
    std::_Exit(70);
  }
  return reinterpret_cast<Signature*>(found);
}

}  // namespace

#define BELOW(name) below<decltype(name)>(#name)

#if defined(DEFECT_event_completes_too_early)
orError_t orEventQuery(orEvent_t event) {
  const orError_t answer = BELOW(orEventQuery)(event);
  return answer == orErrorNotReady ? orSuccess : answer;
}
#elif defined(DEFECT_copy_drops_the_last_byte)
orError_t orMemcpyAsync(void* dst, const void* src, size_t bytes, orMemcpyKind kind, orStream_t stream) {
  return BELOW(orMemcpyAsync)(dst, src, bytes > 1000 ? bytes - 1 : bytes, kind, stream);
}
#elif defined(DEFECT_copy_reads_its_source_late)
// Treats pageable memory as pinned: copies what it contains when the stream is synchronized.
namespace {
struct {
  void* staging = nullptr;
  const void* src = nullptr;
  size_t bytes = 0;
} g_pending;
}  // namespace
orError_t orMemcpyAsync(void* dst, const void* src, size_t bytes, orMemcpyKind kind, orStream_t stream) {
  orPointerAttributes attributes{};
  const bool pageable = BELOW(orPointerGetAttributes)(&attributes, src) == orSuccess &&
                        attributes.type == orMemoryTypeUnregistered && bytes > 0;
  if (!pageable || BELOW(orStreamQuery)(stream) != orErrorNotReady) {
    return BELOW(orMemcpyAsync)(dst, src, bytes, kind, stream);
  }
  if (const orError_t error = BELOW(orMallocHost)(&g_pending.staging, bytes)) return error;
  g_pending.src = src;
  g_pending.bytes = bytes;
  return BELOW(orMemcpyAsync)(dst, g_pending.staging, bytes, kind, stream);
}
orError_t orStreamSynchronize(orStream_t stream) {
  if (g_pending.bytes > 0) std::memcpy(g_pending.staging, g_pending.src, g_pending.bytes);
  return BELOW(orStreamSynchronize)(stream);
}
#elif defined(DEFECT_copy_from_the_host_overtakes)
orError_t orMemcpyAsync(void* dst, const void* src, size_t bytes, orMemcpyKind kind, orStream_t stream) {
  if (kind == orMemcpyHostToDevice) return BELOW(orMemcpy)(dst, src, bytes, kind);  // on the default stream
  return BELOW(orMemcpyAsync)(dst, src, bytes, kind, stream);
}
#elif defined(DEFECT_query_is_always_ready)
orError_t orStreamQuery(orStream_t stream) {
  const orError_t answer = BELOW(orStreamQuery)(stream);
  return answer == orErrorNotReady ? orSuccess : answer;
}
#elif defined(DEFECT_query_is_never_ready)
orError_t orStreamQuery(orStream_t stream) {
  const orError_t answer = BELOW(orStreamQuery)(stream);
  return answer == orSuccess ? orErrorNotReady : answer;
}
#elif defined(DEFECT_free_forgets)
orError_t orFree(void*) { return orSuccess; }
#elif defined(DEFECT_error_is_swallowed)
orError_t orDeviceSynchronize() {
  static_cast<void>(BELOW(orDeviceSynchronize)());
  return orSuccess;
}
#elif defined(DEFECT_exhaustion_is_silent)
orError_t orMalloc(void** pointer, size_t bytes) {
  const orError_t error = BELOW(orMalloc)(pointer, bytes);
  return error == orErrorMemoryAllocation ? orSuccess : error;
}
#elif defined(DEFECT_wait_is_forgotten)
orError_t orStreamWaitEvent(orStream_t, orEvent_t) { return orSuccess; }
#elif defined(DEFECT_device_belongs_to_the_process)
namespace {
std::atomic<int> g_device{0};
}
orError_t orSetDevice(int device) {
  const orError_t error = BELOW(orSetDevice)(device);
  if (error == orSuccess) g_device = device;
  return error;
}
orError_t orGetDevice(int* device) {
  if (device == nullptr) return BELOW(orGetDevice)(device);
  *device = g_device;
  return orSuccess;
}
#elif defined(DEFECT_time_is_in_seconds)
orError_t orEventElapsedTime(double* milliseconds, orEvent_t start, orEvent_t end) {
  const orError_t error = BELOW(orEventElapsedTime)(milliseconds, start, end);
  if (error == orSuccess) *milliseconds /= 1000;
  return error;
}
#elif defined(DEFECT_text_is_empty)
const char* orGetErrorDetail() { return ""; }
#elif defined(DEFECT_crash)
orError_t orStreamGetPriority(orStream_t, int*) {
  std::fprintf(stderr, "broken driver: about to crash\n");
  volatile int* const nowhere = nullptr;
  return static_cast<orError_t>(*nowhere);
}
#elif defined(DEFECT_hang)
orError_t orStreamGetPriority(orStream_t, int*) {
  while (true) pause();
}
#elif defined(DEFECT_hang_at_exit)
namespace {
struct AtExit {
  ~AtExit() {
    while (true) pause();
  }
} g_at_exit;
}  // namespace
#elif defined(DEFECT_child_is_not_refused)
orError_t orGetDeviceCount(int* count) {
  static std::atomic<int> known{0};
  if (known == 0 || count == nullptr) {
    const orError_t error = BELOW(orGetDeviceCount)(count);
    if (error == orSuccess) known = *count;
    return error;
  }
  *count = known;
  return orSuccess;
}
#elif defined(DEFECT_no_pinned_memory)
orError_t orMallocHost(void**, size_t) { return orErrorNotSupported; }
orError_t orFreeHost(void*) { return orErrorNotSupported; }
#elif defined(DEFECT_uuid_is_shared) || defined(DEFECT_uuid_belongs_to_the_process) ||   \
    defined(DEFECT_driver_has_no_name) || defined(DEFECT_largest_allocation_is_wrong) || \
    defined(DEFECT_unified_memory_is_claimed) || defined(DEFECT_flag_is_not_boolean) ||  \
    defined(DEFECT_group_size_is_unknown)
orError_t orGetDeviceProperties(orDeviceProp* properties, int device) {
  const orError_t error = BELOW(orGetDeviceProperties)(properties, device);
  if (error != orSuccess) return error;
#if defined(DEFECT_uuid_is_shared)
  std::memset(properties->uuid, 7, sizeof(properties->uuid));
#elif defined(DEFECT_uuid_belongs_to_the_process)
  const pid_t process = getpid();
  std::memcpy(properties->uuid, &process, sizeof(process));
#elif defined(DEFECT_driver_has_no_name)
  properties->driver[0] = '\0';
#elif defined(DEFECT_largest_allocation_is_wrong)
  properties->max_allocation = properties->total_memory / 4;
#elif defined(DEFECT_unified_memory_is_claimed)
  properties->has_unified_memory = 1;
#elif defined(DEFECT_flag_is_not_boolean)
  properties->has_fp64 = -1;
#else
  properties->max_group_size = 0;
#endif
  return orSuccess;
}
#elif defined(DEFECT_freed_memory_is_unknown) || defined(DEFECT_freed_memory_is_unknown_and_unified)
orError_t orFree(void* pointer) {
  const orError_t error = BELOW(orFree)(pointer);
  return error == orErrorFreedPointer ? orErrorInvalidPointer : error;
}
orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer) {
  const orError_t error = BELOW(orPointerGetAttributes)(attributes, pointer);
  if (error != orErrorFreedPointer) return error;
  *attributes = {orMemoryTypeUnregistered, -1, nullptr, 0};
  return orSuccess;
}
#if defined(DEFECT_freed_memory_is_unknown_and_unified)
orError_t orGetDeviceProperties(orDeviceProp* properties, int device) {
  const orError_t error = BELOW(orGetDeviceProperties)(properties, device);
  if (error == orSuccess) properties->has_unified_memory = 1;
  return error;
}
#endif
#elif defined(DEFECT_options_are_dropped)
orError_t orModuleLoad(orModule_t* module, orModuleFormat format, const void* image, size_t bytes, const char*) {
  return BELOW(orModuleLoad)(module, format, image, bytes, nullptr);
}
#elif defined(DEFECT_mistake_has_no_line)
orError_t orModuleLoad(orModule_t* module, orModuleFormat format, const void* image, size_t bytes,
                       const char* options) {
  const auto* text = static_cast<const char*>(image);
  const char* const end = text + bytes;
  while (format == orModuleSource && text != nullptr && text < end && *text == '\n') ++text;
  return BELOW(orModuleLoad)(module, format, text, static_cast<size_t>(end - text), options);
}
#elif defined(DEFECT_foreign_binary_is_taken)
orError_t orModuleLoad(orModule_t* module, orModuleFormat format, const void* image, size_t bytes,
                       const char* options) {
  const orError_t error = BELOW(orModuleLoad)(module, format, image, bytes, options);
  if (error != orErrorCompilation || format != orModuleBinary) return error;
  constexpr const char* kOther = "__kernel void other(__global int* x) { x[0] = 1; }";
  return BELOW(orModuleLoad)(module, orModuleSource, kOther, std::strlen(kOther), nullptr);
}
#elif defined(DEFECT_binary_overruns_its_room)
orError_t orModuleGetBinary(void* image, size_t* bytes, orModule_t module) {
  const orError_t error = BELOW(orModuleGetBinary)(image, bytes, module);
  return error == orErrorOutOfRange ? orSuccess : error;
}
#elif defined(DEFECT_unload_forgets)
orError_t orModuleUnload(orModule_t) { return orSuccess; }
#elif defined(DEFECT_attributes_are_empty)
orError_t orFunctionGetAttributes(orFunctionAttributes* attributes, orFunction_t) {
  *attributes = {0, 64, 0, 0};
  return orSuccess;
}
#elif defined(DEFECT_launch_drops_the_last_group)
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  if (config == nullptr || config->groups[0] < 2) {
    return BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
  }
  orLaunchConfig smaller = *config;
  --smaller.groups[0];
  return BELOW(orLaunchFunction)(function, &smaller, arguments, argument_count, stream);
}
#elif defined(DEFECT_launch_loses_offsets)
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  if (arguments == nullptr) return BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
  std::vector<orArgument> changed(arguments, arguments + argument_count);
  for (orArgument& argument : changed) {
    orPointerAttributes attributes{};
    if (argument.kind != orArgumentPointer || argument.value == nullptr) continue;
    if (const orError_t error = BELOW(orPointerGetAttributes)(&attributes, argument.value)) return error;
    argument.value = attributes.base;
  }
  return BELOW(orLaunchFunction)(function, config, changed.data(), argument_count, stream);
}
#elif defined(DEFECT_launch_refuses_nothing)
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  const orError_t error = BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
  return error == orErrorInvalidValue || error == orErrorInvalidHandle ? orSuccess : error;
}
#elif defined(DEFECT_launch_has_a_stream_of_its_own)
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  int device = 0;
  if (stream == nullptr || BELOW(orStreamGetDevice)(stream, &device) != orSuccess) {
    return BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
  }
  static orStream_t own = nullptr;
  if (own == nullptr) {
    if (const orError_t error = BELOW(orStreamCreate)(&own)) return error;
  }
  const orError_t error = BELOW(orLaunchFunction)(function, config, arguments, argument_count, own);
  return error == orSuccess ? BELOW(orStreamSynchronize)(own) : error;
}
#elif defined(DEFECT_launch_reads_arguments_late)
// The kernel gets the values that the arguments have when the stream is synchronized.
namespace {
struct {
  orFunction_t function = nullptr;
  orLaunchConfig config{};
  const orArgument* arguments = nullptr;
  size_t count = 0;
  orStream_t stream = nullptr;
} g_pending;
}  // namespace
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  if (BELOW(orStreamQuery)(stream) != orErrorNotReady || argument_count != 3) {
    return BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
  }
  g_pending = {function, *config, arguments, argument_count, stream};
  return orSuccess;
}
orError_t orStreamSynchronize(orStream_t stream) {
  if (g_pending.function != nullptr && g_pending.stream == stream) {
    const auto pending = g_pending;
    g_pending.function = nullptr;
    const orError_t error =
        BELOW(orLaunchFunction)(pending.function, &pending.config, pending.arguments, pending.count, stream);
    if (error != orSuccess) return error;
  }
  return BELOW(orStreamSynchronize)(stream);
}
#elif defined(DEFECT_launch_cuts_long_values)
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  if (arguments == nullptr) return BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
  std::vector<orArgument> changed(arguments, arguments + argument_count);
  std::vector<int64_t> values(argument_count);
  for (size_t i = 0; i < argument_count; ++i) {
    if (changed[i].kind != orArgumentValue || changed[i].bytes != sizeof(int64_t)) continue;
    int32_t low = 0;
    std::memcpy(&low, changed[i].value, sizeof(low));
    values[i] = low;
    changed[i].value = &values[i];
  }
  return BELOW(orLaunchFunction)(function, config, changed.data(), argument_count, stream);
}
#elif defined(DEFECT_launch_refuses_null_pointers)
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  for (size_t i = 0; arguments != nullptr && i < argument_count; ++i) {
    if (arguments[i].kind == orArgumentPointer && arguments[i].value == nullptr) return orErrorInvalidPointer;
  }
  return BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
}
#elif defined(DEFECT_launch_keeps_arguments_in_the_function)
// All threads write their arguments to the same place, from which the launch reads them.
namespace {
struct Place {
  std::atomic<const void*> value{nullptr};
  unsigned char bytes[64] = {};
} g_places[16];
}  // namespace
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  if (arguments == nullptr) return BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
  for (size_t i = 0; i < argument_count; ++i) {
    g_places[i].value = arguments[i].value;
    if (arguments[i].kind != orArgumentValue) continue;
    std::memcpy(g_places[i].bytes, arguments[i].value, arguments[i].bytes);
    g_places[i].value = g_places[i].bytes;
  }
  usleep(300);
  std::vector<orArgument> kept(arguments, arguments + argument_count);
  for (size_t i = 0; i < argument_count; ++i) kept[i].value = g_places[i].value;
  return BELOW(orLaunchFunction)(function, config, kept.data(), argument_count, stream);
}
#elif defined(DEFECT_launch_is_lost_when_many_are_queued)
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  static std::atomic<int> launches{0};
  if (++launches == 4096) return orSuccess;
  return BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
}
#elif defined(DEFECT_function_name_is_ignored)
orError_t orModuleGetFunction(orFunction_t* function, orModule_t module, const char* name) {
  const orError_t error = BELOW(orModuleGetFunction)(function, module, "scale");
  return error == orErrorInvalidValue ? BELOW(orModuleGetFunction)(function, module, name) : error;
}
#elif defined(DEFECT_launch_takes_the_current_device)
orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  int device = 0;
  if (const orError_t error = BELOW(orGetDevice)(&device)) return error;
  if (stream == nullptr) {
    if (const orError_t error = BELOW(orDeviceGetDefaultStream)(&stream, device)) return error;
  }
  return BELOW(orLaunchFunction)(function, config, arguments, argument_count, stream);
}
#elif defined(DEFECT_fill_knows_bytes_only)
orError_t orFillAsync(void* pointer, const void* pattern, size_t pattern_bytes, size_t count, orStream_t stream) {
  if (count == 0 || pattern_bytes < 2 || count > SIZE_MAX / pattern_bytes || pattern == nullptr) {
    return BELOW(orFillAsync)(pointer, pattern, pattern_bytes, count, stream);
  }
  return BELOW(orMemsetAsync)(pointer, *static_cast<const unsigned char*>(pattern), pattern_bytes * count, stream);
}
#elif defined(DEFECT_block_is_copied_with_its_gaps)
orError_t orMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height,
                          orMemcpyKind kind, orStream_t stream) {
  if (dst_pitch < width || src_pitch < width || width == 0 || height == 0) {
    return BELOW(orMemcpy2DAsync)(dst, dst_pitch, src, src_pitch, width, height, kind, stream);
  }
  const size_t pitch = dst_pitch < src_pitch ? dst_pitch : src_pitch;
  return BELOW(orMemcpyAsync)(dst, src, pitch * (height - 1) + width, kind, stream);
}
#elif defined(DEFECT_pitch_is_not_checked)
orError_t orMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height,
                          orMemcpyKind kind, orStream_t stream) {
  const orError_t error = BELOW(orMemcpy2DAsync)(dst, dst_pitch, src, src_pitch, width, height, kind, stream);
  return error == orErrorInvalidValue ? orSuccess : error;
}
#elif defined(DEFECT_registration_is_forgotten)
orError_t orHostRegister(void*, size_t) { return orSuccess; }
orError_t orHostUnregister(void*) { return orSuccess; }
#elif defined(DEFECT_unregistering_does_not_wait)
orError_t orHostUnregister(void*) { return orSuccess; }
#elif defined(DEFECT_ordered_memory_is_reused_early)
namespace {
void* g_freed = nullptr;
}  // namespace
orError_t orFreeAsync(void* pointer, orStream_t) {
  g_freed = pointer;
  return orSuccess;
}
orError_t orMalloc(void** pointer, size_t bytes) {
  if (g_freed == nullptr || bytes != 4096) return BELOW(orMalloc)(pointer, bytes);
  *pointer = g_freed;
  g_freed = nullptr;
  return orSuccess;
}
#elif defined(DEFECT_host_function_does_not_queue)
orError_t orLaunchHostFunction(orStream_t stream, void (*function)(void* user), void* user) {
  int device = 0;
  if (function == nullptr) return orErrorInvalidValue;
  if (const orError_t error = BELOW(orStreamGetDevice)(stream, &device)) return error;
  function(user);
  return orSuccess;
}
#elif defined(DEFECT_host_function_is_dropped)
orError_t orLaunchHostFunction(orStream_t, void (*)(void* user), void*) { return orSuccess; }
#elif defined(DEFECT_shared_memory_is_a_copy)
orError_t orIpcOpenMemoryHandle(void** pointer, const orIpcMemoryHandle* handle) {
  void* shared = nullptr;
  if (const orError_t error = BELOW(orIpcOpenMemoryHandle)(&shared, handle)) return error;
  orPointerAttributes attributes{};
  if (const orError_t error = BELOW(orPointerGetAttributes)(&attributes, shared)) return error;
  if (const orError_t error = BELOW(orMalloc)(pointer, attributes.size)) return error;
  return BELOW(orMemcpy)(*pointer, shared, attributes.size, orMemcpyDeviceToDevice);
}
orError_t orIpcCloseMemory(void* pointer) { return BELOW(orFree)(pointer); }
#elif defined(DEFECT_shared_memory_is_freed_like_any)
orError_t orFree(void* pointer) {
  const orError_t error = BELOW(orFree)(pointer);
  return error == orErrorInvalidPointer ? BELOW(orIpcCloseMemory)(pointer) : error;
}
#elif defined(DEFECT_shared_event_is_of_one_process)
// The importer gets an event of its own, which was never recorded.
orError_t orIpcOpenEventHandle(orEvent_t* event, const orIpcEventHandle* handle) {
  orEvent_t shared = nullptr;
  if (const orError_t error = BELOW(orIpcOpenEventHandle)(&shared, handle)) return error;
  return BELOW(orEventCreateWithFlags)(event, orEventDisableTiming);
}
#elif defined(DEFECT_supports_no_graphs)
orError_t orStreamBeginCapture(orStream_t, orStreamCaptureMode) { return orErrorNotSupported; }
#elif defined(DEFECT_captured_work_runs_at_once)
orError_t orMemcpyAsync(void* dst, const void* src, size_t bytes, orMemcpyKind kind, orStream_t stream) {
  orStreamCaptureStatus status = orStreamCaptureStatusNone;
  uint64_t id = 0;
  if (const orError_t error = BELOW(orStreamGetCaptureInfo)(stream, &status, &id)) return error;
  if (const orError_t error = BELOW(orMemcpyAsync)(dst, src, bytes, kind, stream)) return error;
  return status == orStreamCaptureStatusActive ? BELOW(orMemcpyAsync)(dst, src, bytes, kind, nullptr) : orSuccess;
}
#elif defined(DEFECT_graph_launch_forgets_its_stream)
orError_t orGraphLaunch(orGraphExec_t exec, orStream_t) { return BELOW(orGraphLaunch)(exec, nullptr); }
#elif defined(DEFECT_captured_stream_is_always_ready)
orError_t orStreamQuery(orStream_t stream) {
  orStreamCaptureStatus status = orStreamCaptureStatusNone;
  uint64_t id = 0;
  if (const orError_t error = BELOW(orStreamGetCaptureInfo)(stream, &status, &id)) return error;
  return status == orStreamCaptureStatusActive ? orSuccess : BELOW(orStreamQuery)(stream);
}
#elif defined(DEFECT_capture_mode_is_forgotten)
orError_t orStreamBeginCapture(orStream_t stream, orStreamCaptureMode mode) {
  const bool is_valid = mode >= orStreamCaptureModeGlobal && mode <= orStreamCaptureModeRelaxed;
  return BELOW(orStreamBeginCapture)(stream, is_valid ? orStreamCaptureModeRelaxed : mode);
}
#elif defined(DEFECT_lost_work_is_no_error)
orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph) {
  const orError_t error = BELOW(orStreamEndCapture)(stream, graph);
  if (error != orErrorStreamCaptureUnjoined) return error;
  if (const orError_t again = BELOW(orStreamBeginCapture)(stream, orStreamCaptureModeRelaxed)) return again;
  return BELOW(orStreamEndCapture)(stream, graph);
}
#elif defined(DEFECT_only_its_thread_discards)
namespace {
thread_local orStream_t t_captured = nullptr;
}
orError_t orStreamBeginCapture(orStream_t stream, orStreamCaptureMode mode) {
  const orError_t error = BELOW(orStreamBeginCapture)(stream, mode);
  if (error == orSuccess) t_captured = stream;
  return error;
}
orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph) {
  if (graph == nullptr && stream != t_captured) return orErrorInvalidValue;
  return BELOW(orStreamEndCapture)(stream, graph);
}
#elif defined(DEFECT_peers_disagree)
orError_t orDeviceCanAccessPeer(int* can_access, int device, int peer) {
  const orError_t error = BELOW(orDeviceCanAccessPeer)(can_access, device, peer);
  if (error == orSuccess && device > peer) *can_access = 0;
  return error;
}
#elif defined(DEFECT_peer_is_enabled_once)
orError_t orDeviceEnablePeerAccess(int peer) {
  static std::atomic<int> calls{0};
  return calls++ == 0 ? BELOW(orDeviceEnablePeerAccess)(peer) : orErrorInvalidValue;
}
#elif defined(DEFECT_peer_access_is_not_enabled)
orError_t orDeviceEnablePeerAccess(int) { return orSuccess; }
#elif defined(DEFECT_activity_starts_twice)
orError_t orActivityStart(void (*function)(const orActivity* activity, void* user), void* user) {
  const orError_t error = BELOW(orActivityStart)(function, user);
  return error == orErrorInvalidValue ? orSuccess : error;
}
#elif defined(DEFECT_activity_has_no_names) || defined(DEFECT_activity_loses_records) || \
    defined(DEFECT_activity_counts_from_boot) || defined(DEFECT_activity_has_no_bytes)
namespace {
void (*g_function)(const orActivity*, void*) = nullptr;
void change(const orActivity* activity, void* user) {
  orActivity changed = *activity;
#if defined(DEFECT_activity_has_no_names)
  changed.name = nullptr;
#elif defined(DEFECT_activity_loses_records)
  static std::atomic<int> records{0};
  if (++records % 4 == 0) return;
#elif defined(DEFECT_activity_counts_from_boot)
  timespec boot{};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &boot);
  clock_gettime(CLOCK_REALTIME, &now);
  changed.begin_nanoseconds -= (now.tv_sec - boot.tv_sec) * 1'000'000'000;
  changed.end_nanoseconds -= (now.tv_sec - boot.tv_sec) * 1'000'000'000;
#else
  changed.bytes = 0;
#endif
  g_function(&changed, user);
}
}  // namespace
orError_t orActivityStart(void (*function)(const orActivity* activity, void* user), void* user) {
  if (function == nullptr) return orErrorInvalidValue;
  g_function = function;
  return BELOW(orActivityStart)(change, user);
}
#elif defined(DEFECT_activity_has_no_correlation)
orError_t orActivitySetCorrelation(uint64_t) { return orSuccess; }
#elif defined(DEFECT_activity_does_not_stop)
orError_t orActivityStop() { return BELOW(orDeviceSynchronize)(); }
#elif defined(DEFECT_no_modules)
orError_t orModuleLoad(orModule_t*, orModuleFormat, const void*, size_t, const char*) { return orErrorNotSupported; }
#else
#error "name a defect by -DDEFECT_<name>"
#endif
