// Peer access, for openreg_extended.h. All simulated devices share one address space, so any pair can be enabled.
// Launching a function fails if a pointer argument lies on a peer that was not enabled; host kernels are not checked.
#include "driver.h"
#include "error.h"
#include "openreg_extended.h"

using namespace openreg::driver;

// LITERALINCLUDE START: peer-access
orError_t orDeviceCanAccessPeer(int* can_access, int device, int peer) {
  const Call call("orDeviceCanAccessPeer");
  if (can_access == nullptr) return fail(orErrorInvalidValue, "can_access is null");
  Device* found = nullptr;
  if (const orError_t error = get_device_in_kernel(device, &found)) return error;
  if (const orError_t error = get_device_in_kernel(peer, &found)) return error;
  *can_access = 1;
  return orSuccess;
}

orError_t orDeviceEnablePeerAccess(int peer) {
  const Call call("orDeviceEnablePeerAccess");
  Device* device = nullptr;
  if (const orError_t error = get_current_device(&device)) return error;
  Device* found = nullptr;
  if (const orError_t error = get_device_in_kernel(peer, &found)) return error;
  device->enable_peer(peer);
  return orSuccess;
}

orError_t orDeviceDisablePeerAccess(int peer) {
  const Call call("orDeviceDisablePeerAccess");
  Device* device = nullptr;
  if (const orError_t error = get_current_device(&device)) return error;
  Device* found = nullptr;
  if (const orError_t error = get_device_in_kernel(peer, &found)) return error;
  device->disable_peer(peer);
  return orSuccess;
}
// LITERALINCLUDE END: peer-access
