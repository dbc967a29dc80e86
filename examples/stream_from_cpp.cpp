// Streams from C++: the guards that C++ code uses, and the functions of the device guard that no line of Python calls.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <iostream>
#include <set>

namespace {

const c10::Device kFirst{c10::kPrivateUse1, 0};
const c10::Device kSecond{c10::kPrivateUse1, 1};

// LITERALINCLUDE START: stream-cpp-guards
void guards() {
  const c10::impl::VirtualGuardImpl backend(c10::kPrivateUse1);
  const c10::Stream near = backend.getNewStream(kFirst);
  const c10::Stream far = backend.getNewStream(kSecond);
  const auto print = [&](const char* when) {
    std::cout << when << ": " << backend.getDevice() << ", current are ours: " << (backend.getStream(kFirst) == near)
              << (backend.getStream(kSecond) == far) << '\n';
  };
  print("before");
  {
    const c10::StreamGuard guard(far);
    print("StreamGuard");
  }
  {
    const c10::MultiStreamGuard guard({near, far});
    print("MultiStreamGuard");
  }
  print("after");
}
// LITERALINCLUDE END: stream-cpp-guards

// LITERALINCLUDE START: stream-cpp-pools
void pools() {
  const c10::impl::VirtualGuardImpl backend(c10::kPrivateUse1);
  for (const bool high : {false, true}) {
    std::set<c10::StreamId> ids;
    for (int i = 0; i < 32; ++i) {
      ids.insert(backend.getStreamFromGlobalPool(kFirst, high).id());
      ids.insert(backend.getNewStream(kFirst, high ? -1 : 0).id());
    }
    std::cout << "the pool of priority " << (high ? "high" : "normal") << " has " << ids.size() << " streams\n";
  }
  std::cout << "the default stream of device 1: " << backend.getDefaultStream(kSecond) << '\n';
}
// LITERALINCLUDE END: stream-cpp-pools

}  // namespace

int main() {
  guards();
  pools();
  return 0;
}
