// Drivers that are broken on purpose: each library made of this file has one defect, chosen by the macro DEFECT_<name>,
// and lies over the simulated driver, which does all else. tests/driver_conformance/test_broken_drivers.py builds them.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "openreg.h"

namespace {

// The function of the driver below.
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
// Takes pageable memory for pinned: what lies in it when somebody waits for the stream is what is copied.
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
#else
#error "name a defect by -DDEFECT_<name>"
#endif
