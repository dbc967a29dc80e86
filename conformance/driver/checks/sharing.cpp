// Memory and events that two processes share. The other process is forked before either has started the driver.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "child.h"

namespace conformance {
namespace {

constexpr unsigned kShared = orEventDisableTiming | static_cast<unsigned>(orEventInterprocess);

// Thrown by a process that waits for a message of one that has ended. What failed there says more.
struct Ended {};

// One end of a channel to the other process.
class Channel {
 public:
  explicit Channel(int file) : file_(file) {}

  template <class Value>
  void send(const Value& value) const {
    if (write(file_, &value, sizeof(value)) != static_cast<ssize_t>(sizeof(value))) {
      fail("the other process can be told something", std::strerror(errno));
    }
  }
  template <class Value>
  [[nodiscard]] Value receive() const {
    Value value{};
    if (read(file_, &value, sizeof(value)) != static_cast<ssize_t>(sizeof(value))) {
      throw Ended{};
    }
    return value;
  }
  void close_end() const { close(file_); }

 private:
  int file_;
};

// Runs `there` in another process, and `here` in this one.
void in_two_processes(void (*here)(const Channel&, Child&), void (*there)(const Channel&)) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("the host has sockets", std::strerror(errno));
  Child child([&] {
    Channel(ends[0]).close_end();
    try {
      there(Channel(ends[1]));
    } catch (const Ended&) {
      fail("a message of the process that began", "it has ended");
    }
  });
  Channel(ends[1]).close_end();
  try {
    here(Channel(ends[0]), child);
  } catch (const Ended&) {
    child.finish("the other process does as this one");
    fail("a message of the other process", "it has ended without one");
  }
}

void end_well(Child& child) { child.finish("the other process does as this one"); }

// Throws NotOffered where the driver shares no memory.
std::byte* shareable(size_t bytes) {
  void* pointer = nullptr;
  offered(driver.orMallocShareable(&pointer, bytes), "memory shared between processes");
  return static_cast<std::byte*>(pointer);
}

orIpcMemoryHandle handle_of(void* pointer) {
  orIpcMemoryHandle handle{};
  offered(driver.orIpcGetMemoryHandle(&handle, pointer), "memory shared between processes");
  return handle;
}

std::byte* open_memory(const orIpcMemoryHandle& handle) {
  void* pointer = nullptr;
  ok(driver.orIpcOpenMemoryHandle(&pointer, &handle));
  return static_cast<std::byte*>(pointer);
}

orEvent_t shared_event() {
  orEvent_t event = nullptr;
  offered(driver.orEventCreateWithFlags(&event, kShared), "events shared between processes");
  return event;
}

orIpcEventHandle handle_of_event(orEvent_t event) {
  orIpcEventHandle handle{};
  offered(driver.orIpcGetEventHandle(&handle, event), "events shared between processes");
  return handle;
}

orEvent_t open_event(const orIpcEventHandle& handle) {
  orEvent_t event = nullptr;
  ok(driver.orIpcOpenEventHandle(&event, &handle));
  return event;
}

constexpr size_t kBytes = 300'000;

void both_see_the_bytes() {
  need("shared memory");
  in_two_processes(
      [](const Channel& other, Child& child) {
        std::byte* const memory = shareable(kBytes);
        upload(memory, pattern(kBytes, 1));
        other.send(handle_of(memory));
        expect(other.receive<bool>(), "the other process has written", "it has not");
        expect_bytes(pattern(kBytes, 2), download(memory, kBytes), "what the other process wrote");
        end_well(child);
      },
      [](const Channel& other) {
        std::byte* const memory = open_memory(other.receive<orIpcMemoryHandle>());
        expect_bytes(pattern(kBytes, 1), download(memory, kBytes), "what the other process wrote");
        upload(memory, pattern(kBytes, 2));
        ok(driver.orIpcCloseMemory(memory));
        other.send(true);
      });
}

void open_memory_stays() {
  need("shared memory");
  in_two_processes(
      [](const Channel& other, Child& child) {
        std::byte* const memory = shareable(kBytes);
        upload(memory, pattern(kBytes, 1));
        const orIpcMemoryHandle handle = handle_of(memory);
        other.send(handle);
        (void)other.receive<bool>();
        ok(driver.orFree(memory));
        upload(device_memory(kBytes), pattern(kBytes, 3));
        other.send(true);
        end_well(child);
      },
      [](const Channel& other) {
        const auto handle = other.receive<orIpcMemoryHandle>();
        std::byte* const memory = open_memory(handle);
        other.send(true);
        (void)other.receive<bool>();
        expect_bytes(pattern(kBytes, 1), download(memory, kBytes), "memory that the other process has freed");
        void* again = nullptr;
        refused(orErrorInvalidHandle, driver.orIpcOpenMemoryHandle(&again, &handle), "the handle of freed memory");
      });
}

void closed_and_not_freed() {
  need("shared memory");
  in_two_processes(
      [](const Channel& other, Child& child) {
        other.send(handle_of(shareable(kBytes)));
        end_well(child);
      },
      [](const Channel& other) {
        std::byte* const memory = open_memory(other.receive<orIpcMemoryHandle>());
        refused(orErrorInvalidPointer, driver.orFree(memory), "memory of another process");
        ok(driver.orIpcCloseMemory(memory));
        const orError_t error = driver.orIpcCloseMemory(memory);
        (void)refused_as_freed(error, {orErrorInvalidPointer}, "memory that was closed");
        refused(orErrorInvalidPointer, driver.orIpcCloseMemory(device_memory(64)), "memory of this process");
      });
}

void handles_belong_to_a_device() {
  need("shared memory");
  in_two_processes(
      [](const Channel& other, Child& child) {
        need_two_devices();  // not before the fork: it starts the driver
        other.send(handle_of(shareable(kBytes)));
        end_well(child);
      },
      [](const Channel& other) {
        const auto handle = other.receive<orIpcMemoryHandle>();
        ok(driver.orSetDevice(1));
        void* pointer = nullptr;
        refused(orErrorInvalidDevice, driver.orIpcOpenMemoryHandle(&pointer, &handle),
                "memory of device 0 on device 1");
      });
}

void wrong_handles_are_refused() {
  need("shared memory");
  void* pointer = shareable(64);
  orIpcMemoryHandle handle{};
  refused(orErrorInvalidValue, driver.orIpcGetMemoryHandle(nullptr, pointer), "no handle");
  refused(orErrorInvalidHandle, driver.orIpcOpenMemoryHandle(&pointer, &handle), "a handle of zeros");
  const orError_t error = driver.orIpcGetMemoryHandle(&handle, device_memory(64));
  if (error != orSuccess) refused(orErrorNotSupported, error, "memory from orMalloc");
}

void stream_waits_for_another_process() {
  need("shared memory");
  need("shared events");
  in_two_processes(
      [](const Channel& other, Child& child) {
        std::byte* const memory = shareable(4);
        const orEvent_t event = shared_event();
        other.send(handle_of(memory));
        other.send(handle_of_event(event));
        (void)other.receive<bool>();
        const orStream_t stream = new_stream();
        const Busy busy(stream, milliseconds(200));
        busy.need_asynchronous("orLaunchKernel");
        ok(driver.orMemsetAsync(memory, 7, 4, stream));
        ok(driver.orEventRecord(event, stream));
        other.send(true);
        end_well(child);
      },
      [](const Channel& other) {
        std::byte* const memory = open_memory(other.receive<orIpcMemoryHandle>());
        const orEvent_t event = open_event(other.receive<orIpcEventHandle>());
        ok(driver.orEventQuery(event));
        other.send(true);
        (void)other.receive<bool>();
        ok(driver.orStreamWaitEvent(nullptr, event));
        ok(driver.orStreamSynchronize(nullptr));
        expect_bytes(std::vector<std::byte>(4, std::byte{7}), download(memory, 4),
                     "memory that another process wrote before it recorded the event");
        ok(driver.orEventDestroy(event));
      });
}

void either_side_records() {
  need("shared events");
  in_two_processes(
      [](const Channel& other, Child& child) {
        const orEvent_t event = shared_event();
        other.send(handle_of_event(event));
        (void)other.receive<bool>();
        ok(driver.orEventSynchronize(event));
        ok(driver.orEventQuery(event));
        end_well(child);
      },
      [](const Channel& other) {
        const orEvent_t event = open_event(other.receive<orIpcEventHandle>());
        const Busy busy(nullptr, milliseconds(50));
        ok(driver.orEventRecord(event, nullptr));
        other.send(true);
        ok(driver.orEventSynchronize(event));
        busy.must_be_over("orEventSynchronize returned");
      });
}

void a_dead_process_is_noticed() {
  need("shared events");
  in_two_processes(
      [](const Channel& other, Child& child) {
        const orEvent_t event = shared_event();
        other.send(handle_of_event(event));
        if (!other.receive<bool>())
          not_offered("work behind the caller's back: a kernel ended before its launch returned");
        child.kill();
        refused(orErrorLaunchFailure, driver.orEventSynchronize(event), "a record of a process that was killed");
      },
      [](const Channel& other) {
        const orEvent_t event = open_event(other.receive<orIpcEventHandle>());
        const bool queued = Busy(nullptr, milliseconds(20)).surely_runs();
        if (queued) {
          const Busy busy(nullptr, milliseconds(30'000));
          ok(driver.orEventRecord(event, nullptr));
        }
        other.send(queued);
        (void)other.receive<bool>();
      });
}

void other_events_have_no_handle() {
  need("shared events");
  (void)shared_event();
  orIpcEventHandle handle{};
  const orError_t error = driver.orIpcGetEventHandle(&handle, new_event());
  if (error != orSuccess) refused(orErrorNotSupported, error, "an event without orEventInterprocess");
  orEvent_t event = nullptr;
  refused(orErrorInvalidValue, driver.orEventCreateWithFlags(&event, orEventInterprocess), "orEventInterprocess alone");
  handle = {};
  refused(orErrorInvalidHandle, driver.orIpcOpenEventHandle(&event, &handle), "a handle of zeros");
}

constexpr Check kChecks[] = {
    {"sharing", "two processes see the same bytes", "a tensor is handed to another process without a copy",
     both_see_the_bytes},
    {"sharing", "open memory stays when its owner frees it", "a producer ends before its consumers", open_memory_stays},
    {"sharing", "open memory is closed and not freed", "an allocator never frees what it did not allocate",
     closed_and_not_freed},
    {"sharing", "a handle belongs to a device", "a tensor does not change its device on the way",
     handles_belong_to_a_device},
    {"sharing", "wrong handles are refused", "a message that was damaged is an exception", wrong_handles_are_refused},
    {"sharing", "a stream waits for a stream of another process",
     "the consumer does not read before the producer wrote", stream_waits_for_another_process},
    {"sharing", "either process records the event", "a buffer goes back and forth", either_side_records},
    {"sharing", "a process that was killed is noticed", "the others fail instead of waiting for ever",
     a_dead_process_is_noticed},
    {"sharing", "other events have no handle", "the flag that is missing is named", other_events_have_no_handle},
};

}  // namespace

std::span<const Check> sharing_checks() { return kChecks; }

}  // namespace conformance
