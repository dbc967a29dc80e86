// The device guard as C++ code uses it: a program that links the backend, without Python.
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>

namespace {

using c10::impl::DeviceGuardImplInterface;

// Prints a warning and turns it into an exception, as programs that accept no warnings do.
struct Strict final : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    std::cout << "  warning: " << warning.msg() << std::endl;
    throw std::runtime_error(warning.msg());
  }
};

const DeviceGuardImplInterface& implementation() { return *c10::impl::getDeviceGuardImpl(c10::kPrivateUse1); }

c10::Device device(int index) { return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index)}; }

void print_current(const char* where) { std::cout << where << ": " << implementation().getDevice() << '\n'; }

void print_count() {
  const int count = implementation().deviceCount();
  std::cout << "  deviceCount: " << count << '\n';
}

// Makes a call that must fail, and prints the error.
template <class Call>
void print_error(const char* what, const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    std::cout << what << ": " << error.what_without_backtrace() << '\n';
  }
}

// Makes a call in a child process, and prints how the child ends.
template <class Call>
void in_a_child(const Call& call) {
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core_file{0, 0};
    setrlimit(RLIMIT_CORE, &no_core_file);
    call();
    std::cout.flush();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::cout << "  the child " << (WIFSIGNALED(status) ? "is killed" : "ends") << '\n';
}

// LITERALINCLUDE START: guard-cpp-scopes
void compute_on(c10::Device where, bool fails) {
  const c10::DeviceGuard guard(where);
  print_current("  inside");
  if (fails) {
    throw std::runtime_error("out of luck");
  }
}

void scopes() {
  compute_on(device(1), false);
  print_current("after a scope");
  try {
    compute_on(device(1), true);
  } catch (const std::runtime_error& error) {
    print_current(error.what());
  }
  {
    c10::DeviceGuard guard(device(-1));  // "no index": the current device, which is still remembered
    guard.set_index(1);
    std::cout << "from " << guard.original_device() << " to " << guard.current_device() << '\n';
  }
  print_current("after a guard that changed its mind");
  const c10::OptionalDeviceGuard nothing(std::nullopt);
  std::cout << "a guard of no device has one: " << nothing.original_device().has_value() << '\n';
  print_error("a device that does not exist", [] { compute_on(device(9), false); });
  print_error("a number of more than eight bits", [] { compute_on(device(300), false); });
  print_current("after both");
}
// LITERALINCLUDE END: guard-cpp-scopes

// LITERALINCLUDE START: guard-cpp-several-devices
// The second half of a computation needs the first, which another device computes on a stream of its own.
void several_devices() {
  const c10::Stream producer = implementation().getNewStream(device(1));
  const c10::Stream consumer = implementation().getStream(device(0));
  c10::Event ready(c10::kPrivateUse1);
  at::Tensor first;
  {
    const c10::StreamGuard guard(producer);  // makes the stream and its device current
    first = at::full({2}, 20, at::device(at::kPrivateUse1));
    std::cout << "made on " << first.device() << ", current is " << implementation().getDevice() << '\n';
    ready.record(producer);
  }
  ready.block(consumer);  // openreg:0 waits, the host does not
  const at::Tensor second = first.to(device(0));
  std::cout << "used on " << second.device() << ": " << second.sum().item().toInt() << '\n';
  print_error("an event of one device on a stream of another", [&] { ready.record(consumer); });
}
// LITERALINCLUDE END: guard-cpp-several-devices

// LITERALINCLUDE START: guard-cpp-members
// Members that Python does not reach, or whose results it does not see.
void members() {
  const DeviceGuardImplInterface& guard = implementation();
  std::cout << "type: " << guard.type() << ", devices: " << static_cast<int>(guard.deviceCount()) << '\n';
  std::cout << "default stream: " << guard.getDefaultStream(device(1)) << '\n';
  std::set<c10::StreamId> normal;
  for (int taken = 0; taken < 100; ++taken) {
    normal.insert(guard.getStreamFromGlobalPool(device(0)).id());
  }
  const c10::Stream high = guard.getStreamFromGlobalPool(device(0), true);
  const c10::Stream low = guard.getNewStream(device(0));
  std::cout << "streams of a pool: " << normal.size()
            << ", one of high priority is among them: " << normal.contains(high.id())
            << ", a new one: " << normal.contains(low.id()) << '\n';
  std::thread([&guard] {
    guard.setDevice(device(1));
    print_current("in a thread");
  }).join();
  print_current("in this one");
  std::cout << "exchanged: " << guard.exchangeDevice(device(1)) << " for " << guard.exchangeDevice(device(0)) << '\n';
}
// LITERALINCLUDE END: guard-cpp-members

// LITERALINCLUDE START: guard-cpp-noexcept
// A guard that a destructor cannot call safely.
struct Throwing final : c10::impl::NoOpDeviceGuardImpl<c10::kPrivateUse1> {
  void uncheckedSetDevice(c10::Device where) const noexcept override { TORCH_CHECK(false, "cannot set ", where); }
};

void destructors() {
  std::cout << "a device that cannot be set\n";
  implementation().uncheckedSetDevice(device(9));
  print_current("  still");
  std::cout << "an event that is none\n";
  int none = 0;
  implementation().destroyEvent(&none, 0);
  std::cout << "a guard of the parent, in a forked child\n";
  auto guard = std::make_unique<c10::DeviceGuard>(device(1));
  in_a_child([&guard] {
    guard.reset();
    print_current("  the destructor left");
    print_count();
    print_error("  setDevice", [] { implementation().setDevice(device(0)); });
  });
  guard.reset();
  print_current("in the parent");
  std::cout << "a guard whose destructor throws\n";
  in_a_child([] {
    std::set_terminate([] {
      std::cout << "  std::terminate is called" << std::endl;
      std::abort();
    });
    const Throwing throwing;
    try {
      const c10::DeviceGuard guard(device(1), &throwing);
    } catch (...) {  // does not help
    }
  });
}
// LITERALINCLUDE END: guard-cpp-noexcept

// LITERALINCLUDE START: guard-cpp-no-driver
void without_a_driver() {
  print_count();
  print_error("  exchangeDevice", [] { implementation().exchangeDevice(device(1)); });
  std::cout << "  exchangeDevice, for the current device: " << implementation().exchangeDevice(device(0)) << '\n';
}
// LITERALINCLUDE END: guard-cpp-no-driver

}  // namespace

int main() {
  c10::register_privateuse1_backend("openreg");
  std::cout << std::boolalpha;
  Strict handler;
  const c10::WarningUtils::WarningHandlerGuard strict(&handler);
  if (implementation().deviceCount() == 0) {
    without_a_driver();
    return 0;
  }
  scopes();
  std::cout << '\n';
  several_devices();
  std::cout << '\n';
  members();
  std::cout << '\n';
  destructors();
  std::cout << '\n';
}
