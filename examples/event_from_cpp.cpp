// Events from C++: what the device guard receives for an event that was never recorded, and one that was moved from.
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <iostream>
#include <utility>

namespace {

// LITERALINCLUDE START: event-cpp-never-recorded
void never_recorded() {
  const c10::impl::VirtualGuardImpl backend(c10::kPrivateUse1);
  const c10::Stream stream = backend.getStream({c10::kPrivateUse1, 0});
  std::cout << "has passed: " << backend.queryEvent(nullptr) << '\n';
  backend.synchronizeEvent(nullptr);
  backend.block(nullptr, stream);
  backend.destroyEvent(nullptr, 0);
  c10::Event event(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT);
  event.record(stream);
  const std::pair<void*, void*> one_missing[] = {{nullptr, event.eventId()}, {event.eventId(), nullptr}};
  for (const auto& [start, end] : one_missing) {
    try {
      backend.elapsedTime(start, end, 0);
    } catch (const c10::Error& error) {
      std::cout << error.what_without_backtrace() << '\n';
    }
  }
}

void moved_from() {
  const c10::impl::VirtualGuardImpl backend(c10::kPrivateUse1);
  c10::Event event(c10::kPrivateUse1);
  event.record(backend.getStream({c10::kPrivateUse1, 0}));
  const c10::Event other = std::move(event);
  std::cout << "marked for recording: " << other.was_marked_for_recording() << event.was_marked_for_recording()
            << ", has passed: " << event.query() << '\n';
}
// LITERALINCLUDE END: event-cpp-never-recorded

}  // namespace

int main() {
  never_recorded();
  moved_from();
  return 0;
}
