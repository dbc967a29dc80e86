// What happens to the driver when its process forks or ends.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "child.h"

namespace conformance {
namespace {

void in_fork(const std::function<void()>& body, const std::string& claim, Where where = Where::current()) {
  Child(body).finish(claim, where);
}

void forked_child_is_refused() {
  (void)device_count();  // so that a number which the library remembers is known
  void* const memory = device_memory(16);
  orStream_t stream = new_stream();
  orEvent_t event = new_event();
  in_fork(
      [=] {
        int number = 0;
        std::byte byte{};
        void* pointer = nullptr;
        refused(orErrorForked, driver.orGetDeviceCount(&number), "a forked child");
        refused(orErrorForked, driver.orSetDevice(0), "a forked child");
        refused(orErrorForked, driver.orMalloc(&pointer, 16), "a forked child");
        refused(orErrorForked, driver.orFree(memory), "a forked child");
        refused(orErrorForked, driver.orMemcpy(&byte, memory, 1, orMemcpyDeviceToHost), "a forked child");
        refused(orErrorForked, driver.orStreamSynchronize(stream), "a forked child");
        refused(orErrorForked, driver.orEventQuery(event), "a forked child");
        refused(orErrorForked, driver.orDeviceSynchronize(), "a forked child");
      },
      "a forked child of a process that has used the driver is refused");
}

void what_needs_no_device_works_in_a_child() {
  (void)device_count();
  in_fork(
      [] {
        int number = -1;
        ok(driver.orDriverGetVersion(&number));
        ok(driver.orGetDevice(&number));
        int lowest = 0;
        int highest = 0;
        ok(driver.orDeviceGetStreamPriorityRange(&lowest, &highest));
        expect(driver.orGetErrorName(orErrorForked) != nullptr, "the name of an error", "null");
      },
      "what needs no device keeps working in a forked child");
}

void parent_goes_on() {
  std::byte* const memory = device_memory(4096);
  orStream_t stream = new_stream();
  const auto bytes = pattern(4096, 2);
  const Busy busy(stream, milliseconds(20));
  in_fork([] {}, "a forked child that does nothing ends");
  ok(driver.orMemcpyAsync(memory, bytes.data(), bytes.size(), orMemcpyHostToDevice, stream));
  ok(driver.orStreamSynchronize(stream));
  expect_bytes(bytes, download(memory, bytes.size()), "a copy after a fork");
}

void child_of_an_unused_driver_may_start_it() {
  in_fork(
      [] {
        const auto bytes = pattern(4096, 2);
        std::byte* const memory = device_memory(bytes.size());
        upload(memory, bytes);
        expect_bytes(bytes, download(memory, bytes.size()), "a copy in a forked child");
      },
      "a child that was forked before the driver was used can use it");
}

void ends_with_work_queued() {
  in_fork(
      [] {
        orStream_t stream = new_stream();
        std::byte* const memory = device_memory(4096);
        const Busy busy(stream, milliseconds(50));
        for (int i = 0; i < 100; ++i) ok(driver.orMemsetAsync(memory, i, 4096, stream));
      },
      "a process ends while work is queued");
}

void is_called_at_the_very_end() {
  static void* memory = nullptr;
  in_fork(
      [] {
        // Registered before the driver starts, and so called after all that the driver has registered.
        (void)std::atexit([] {
          const orError_t error = driver.orFree(memory);
          if (error != orSuccess) std::_Exit(3);
        });
        memory = device_memory(4096);
        const Busy busy(new_stream(), milliseconds(20));
      },
      "memory can be freed by a static destructor, when the driver has ended its own part");
}

void host_access_faults() {
  orDeviceProp properties;
  ok(driver.orGetDeviceProperties(&properties, 0));
  std::byte* const memory = device_memory(4096);
  const pid_t child = fork();
  if (child < 0) fail("the host can fork", std::strerror(errno));
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::_Exit(1);
    const volatile std::byte* const byte = memory;
    (void)*byte;
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    not_offered("memory that the host cannot read: a byte was read, and has_unified_memory is " +
                std::to_string(properties.has_unified_memory));
  }
}

constexpr Check kChecks[] = {
    {"processes", "a forked child is refused, at once",
     "a data loader that forks gets an exception instead of a deadlock", forked_child_is_refused},
    {"processes", "what needs no device works in a forked child", "the exception of a forked child has a message",
     what_needs_no_device_works_in_a_child},
    {"processes", "the parent goes on after a fork", "data loaders with workers, subprocess and multiprocessing",
     parent_goes_on},
    {"processes", "a child forked before the first use can start the driver", "servers that fork before they compute",
     child_of_an_unused_driver_may_start_it},
    {"processes", "a process ends while work is queued", "nobody synchronizes before the end of a program",
     ends_with_work_queued},
    {"processes", "memory can be freed at the very end", "tensors in global variables die after main()",
     is_called_at_the_very_end},
    {"processes", "the host cannot read device memory unnoticed",
     "nothing; what works by accident on one machine fails on another", host_access_faults},
};

}  // namespace

std::span<const Check> process_checks() { return kChecks; }

}  // namespace conformance
