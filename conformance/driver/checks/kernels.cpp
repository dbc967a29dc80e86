// Launching the kernels that are built into the device.
#include <cstdint>
#include <cstring>

#include "check.h"

namespace conformance {
namespace {

orKernel_t sleep_kernel() {
  orKernel_t kernel = nullptr;
  offered(driver.orGetKernel(&kernel, "sleep"), "kernels that are built in");
  return kernel;
}

void unknown_name_is_refused() {
  (void)sleep_kernel();
  orKernel_t kernel = nullptr;
  refused(orErrorInvalidValue, driver.orGetKernel(&kernel, "no such kernel"), "a name that is none");
}

void wrong_arguments_are_refused() {
  orKernel_t kernel = sleep_kernel();
  const uint64_t nothing = 0;
  refused(orErrorInvalidValue, driver.orLaunchKernel(kernel, &nothing, 4, nullptr), "4 bytes of 8");
  refused(orErrorInvalidValue, driver.orLaunchKernel(kernel, nullptr, 8, nullptr), "null");
  refused(orErrorInvalidHandle, driver.orLaunchKernel(nullptr, &nothing, 8, nullptr), "no kernel");
}

// Were the argument read late, the kernel would sleep until the time limit of the check.
void arguments_are_read_at_once() {
  orKernel_t kernel = sleep_kernel();
  orStream_t stream = new_stream();
  const Busy busy(stream, milliseconds(20));
  uint64_t nanoseconds = 1000;
  ok(driver.orLaunchKernel(kernel, &nanoseconds, sizeof(nanoseconds), stream));
  nanoseconds = uint64_t{3600} * 1'000'000'000;
  ok(driver.orStreamSynchronize(stream));
}

constexpr Check kChecks[] = {
    {"kernels", "an unknown kernel is refused", "a kernel that is missing in the device's library is an exception",
     unknown_name_is_refused},
    {"kernels", "wrong arguments are refused", "a mistake in the backend becomes an exception",
     wrong_arguments_are_refused},
    {"kernels", "arguments are read before the launch returns", "they lie on the stack of the operator",
     arguments_are_read_at_once},
};

}  // namespace

std::span<const Check> kernel_checks() { return kChecks; }

}  // namespace conformance
