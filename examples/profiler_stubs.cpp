// What PyTorch's event profiler may call in a backend, called from C++: nothing in Python calls the second half.
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <iostream>

int main() {
  const auto& stubs = *torch::profiler::impl::privateuse1Stubs();
  const c10::impl::VirtualGuardImpl backend(c10::kPrivateUse1);
  backend.setDevice({c10::kPrivateUse1, 1});
  c10::DeviceIndex device = -1;
  int64_t nanoseconds = 0;
  torch::profiler::impl::ProfilerVoidEventStub start, end, elsewhere;
  stubs.record(&device, &start, &nanoseconds);
  stubs.record(nullptr, &end, nullptr);
  stubs.synchronize();
  std::cout << "enabled: " << stubs.enabled() << ", recorded on " << static_cast<int>(device)
            << ", with the host's time: " << (nanoseconds > 0) << ", in order: " << (stubs.elapsed(&start, &end) >= 0)
            << '\n';
  stubs.onEachDevice([&](int index) {
    std::cout << "device " << index << " is current: " << (backend.getDevice().index() == index) << '\n';
  });
  backend.setDevice({c10::kPrivateUse1, 0});
  stubs.record(nullptr, &elsewhere, nullptr);
  stubs.rangePush("a part");
  stubs.mark("a point");
  stubs.rangePop();
  try {
    stubs.rangePop();
  } catch (const c10::Error& error) {
    std::cout << error.what_without_backtrace() << '\n';
  }
  try {
    stubs.elapsed(&start, &elsewhere);
  } catch (const c10::Error& error) {
    std::cout << error.what_without_backtrace() << '\n';
  }
  return 0;
}
