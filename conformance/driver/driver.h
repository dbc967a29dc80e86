// The driver under test: the functions of its headers, found in a library at run time. One that the library does not
// have is no error until a check calls it, so that a driver can be tested while it is being written.
#pragma once

#include <atomic>
#include <utility>

#include "openreg.h"
#include "openreg_activity.h"
#include "openreg_extended.h"
#include "openreg_faults.h"
#include "openreg_graph.h"
#include "openreg_host_kernels.h"
#include "openreg_ipc.h"
#include "openreg_modules.h"

namespace conformance {

// Thrown by a call of a function that the library does not have.
struct Missing {
  const char* function;
};

// The function of the driver that was called last. In memory shared with the process that started the check, which
// names it when the check crashes or hangs.
extern std::atomic<const char*>* last_call;

template <class Signature>
class Function;

template <class Result, class... Arguments>
class Function<Result(Arguments...)> {
 public:
  explicit Function(const char* name) : name_(name) {}

  Result operator()(Arguments... arguments) const {
    last_call->store(name_);
    if (address_ == nullptr) throw Missing{name_};
    return address_(arguments...);
  }
  [[nodiscard]] bool exists() const { return address_ != nullptr; }
  [[nodiscard]] const char* name() const { return name_; }
  void find(void* (*look_up)(void* library, const char* name), void* library) {
    address_ = reinterpret_cast<Result (*)(Arguments...)>(look_up(library, name_));
  }

 private:
  const char* name_;
  Result (*address_)(Arguments...) = nullptr;
};

// That a result may not be dropped is a promise of the type orError_t as well, and need not travel with the functions.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"

struct Driver {
  // The name is written once, so that the member, its type and what is looked up cannot differ.
#define DRIVER_FUNCTION(name) \
  Function<decltype(::name)> name { #name }
  DRIVER_FUNCTION(orGetErrorName);
  DRIVER_FUNCTION(orGetErrorString);
  DRIVER_FUNCTION(orGetLastError);
  DRIVER_FUNCTION(orPeekLastError);
  DRIVER_FUNCTION(orGetErrorDetail);
  DRIVER_FUNCTION(orDriverGetVersion);
  DRIVER_FUNCTION(orGetDeviceCount);
  DRIVER_FUNCTION(orGetDevice);
  DRIVER_FUNCTION(orSetDevice);
  DRIVER_FUNCTION(orGetDeviceProperties);
  DRIVER_FUNCTION(orDeviceSynchronize);
  DRIVER_FUNCTION(orDeviceReset);
  DRIVER_FUNCTION(orMalloc);
  DRIVER_FUNCTION(orFree);
  DRIVER_FUNCTION(orMemGetInfo);
  DRIVER_FUNCTION(orMallocHost);
  DRIVER_FUNCTION(orFreeHost);
  DRIVER_FUNCTION(orPointerGetAttributes);
  DRIVER_FUNCTION(orMemcpy);
  DRIVER_FUNCTION(orMemcpyAsync);
  DRIVER_FUNCTION(orMemset);
  DRIVER_FUNCTION(orMemsetAsync);
  DRIVER_FUNCTION(orDeviceGetDefaultStream);
  DRIVER_FUNCTION(orDeviceGetStreamPriorityRange);
  DRIVER_FUNCTION(orStreamCreate);
  DRIVER_FUNCTION(orStreamCreateWithPriority);
  DRIVER_FUNCTION(orStreamDestroy);
  DRIVER_FUNCTION(orStreamGetDevice);
  DRIVER_FUNCTION(orStreamGetPriority);
  DRIVER_FUNCTION(orStreamSynchronize);
  DRIVER_FUNCTION(orStreamQuery);
  DRIVER_FUNCTION(orStreamWaitEvent);
  DRIVER_FUNCTION(orEventCreate);
  DRIVER_FUNCTION(orEventCreateWithFlags);
  DRIVER_FUNCTION(orEventDestroy);
  DRIVER_FUNCTION(orEventRecord);
  DRIVER_FUNCTION(orEventSynchronize);
  DRIVER_FUNCTION(orEventQuery);
  DRIVER_FUNCTION(orEventElapsedTime);
  DRIVER_FUNCTION(orGetKernel);
  DRIVER_FUNCTION(orLaunchKernel);
  // Not in openreg.h: a driver need not have them.
  DRIVER_FUNCTION(orInjectFault);
  DRIVER_FUNCTION(orLaunchHostKernel);
  DRIVER_FUNCTION(orGetHostAlias);
  DRIVER_FUNCTION(orModuleLoad);
  DRIVER_FUNCTION(orModuleGetBinary);
  DRIVER_FUNCTION(orModuleUnload);
  DRIVER_FUNCTION(orModuleGetFunction);
  DRIVER_FUNCTION(orFunctionGetAttributes);
  DRIVER_FUNCTION(orLaunchFunction);
  DRIVER_FUNCTION(orFillAsync);
  DRIVER_FUNCTION(orMemcpy2DAsync);
  DRIVER_FUNCTION(orHostRegister);
  DRIVER_FUNCTION(orHostUnregister);
  DRIVER_FUNCTION(orMallocAsync);
  DRIVER_FUNCTION(orFreeAsync);
  DRIVER_FUNCTION(orLaunchHostFunction);
  DRIVER_FUNCTION(orDeviceCanAccessPeer);
  DRIVER_FUNCTION(orDeviceEnablePeerAccess);
  DRIVER_FUNCTION(orDeviceDisablePeerAccess);
  DRIVER_FUNCTION(orMallocShareable);
  DRIVER_FUNCTION(orIpcGetMemoryHandle);
  DRIVER_FUNCTION(orIpcOpenMemoryHandle);
  DRIVER_FUNCTION(orIpcCloseMemory);
  DRIVER_FUNCTION(orIpcGetEventHandle);
  DRIVER_FUNCTION(orIpcOpenEventHandle);
  DRIVER_FUNCTION(orStreamBeginCapture);
  DRIVER_FUNCTION(orStreamEndCapture);
  DRIVER_FUNCTION(orStreamGetCaptureInfo);
  DRIVER_FUNCTION(orGraphInstantiate);
  DRIVER_FUNCTION(orGraphLaunch);
  DRIVER_FUNCTION(orGraphDestroy);
  DRIVER_FUNCTION(orGraphExecDestroy);
  DRIVER_FUNCTION(orGraphDebugDotPrint);
  DRIVER_FUNCTION(orActivityStart);
  DRIVER_FUNCTION(orActivityStop);
  DRIVER_FUNCTION(orActivitySetCorrelation);
#undef DRIVER_FUNCTION

  // Calls visit(function) for every function of openreg.h.
  template <class Visit>
  void for_each_required(Visit visit) {
    const auto each = [&](auto&... functions) { (visit(functions), ...); };
    each(orGetErrorName, orGetErrorString, orGetLastError, orPeekLastError, orGetErrorDetail);
    each(orDriverGetVersion, orGetDeviceCount, orGetDevice, orSetDevice, orGetDeviceProperties, orDeviceSynchronize,
         orDeviceReset);
    each(orMalloc, orFree, orMemGetInfo, orMallocHost, orFreeHost, orPointerGetAttributes);
    each(orMemcpy, orMemcpyAsync, orMemset, orMemsetAsync);
    each(orDeviceGetDefaultStream, orDeviceGetStreamPriorityRange, orStreamCreate, orStreamCreateWithPriority,
         orStreamDestroy, orStreamGetDevice, orStreamGetPriority, orStreamSynchronize, orStreamQuery,
         orStreamWaitEvent);
    each(orEventCreate, orEventCreateWithFlags, orEventDestroy, orEventRecord, orEventSynchronize, orEventQuery,
         orEventElapsedTime);
    each(orGetKernel, orLaunchKernel);
  }

  // The same for those of the other headers, which a driver may leave out.
  template <class Visit>
  void for_each_optional(Visit visit) {
    const auto each = [&](auto&... functions) { (visit(functions), ...); };
    each(orInjectFault, orLaunchHostKernel, orGetHostAlias);
    each(orModuleLoad, orModuleGetBinary, orModuleUnload, orModuleGetFunction, orFunctionGetAttributes,
         orLaunchFunction);
    each(orFillAsync, orMemcpy2DAsync, orHostRegister, orHostUnregister, orMallocAsync, orFreeAsync,
         orLaunchHostFunction, orDeviceCanAccessPeer, orDeviceEnablePeerAccess, orDeviceDisablePeerAccess);
    each(orMallocShareable, orIpcGetMemoryHandle, orIpcOpenMemoryHandle, orIpcCloseMemory, orIpcGetEventHandle,
         orIpcOpenEventHandle);
    each(orStreamBeginCapture, orStreamEndCapture, orStreamGetCaptureInfo, orGraphInstantiate, orGraphLaunch,
         orGraphDestroy, orGraphExecDestroy, orGraphDebugDotPrint);
    each(orActivityStart, orActivityStop, orActivitySetCorrelation);
  }

  // Loads the library. Throws: Failed, when it cannot be loaded.
  void load(const char* path);
};

// The one that the running check asks.
extern Driver driver;

#pragma GCC diagnostic pop

}  // namespace conformance
