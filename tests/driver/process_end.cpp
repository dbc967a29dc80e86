// Ways to end a process that no Python program can reproduce: code after a wait continues while the process ends, and
// code calls the driver after that. Usage: process_end WAY
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "openreg.h"
#include "openreg_host_kernels.h"

namespace {

constexpr size_t kBytes = size_t{256} << 20;  // some 50 ms to copy, and longer on a busy machine
constexpr uint64_t kHour = 3'600'000'000'000;

void check(orError_t error) {
  if (error == orSuccess) return;
  std::printf("%s: %s\n", orGetErrorName(error), orGetErrorDetail());
  std::fflush(stdout);
  std::_Exit(1);
}

void sleep_on(orStream_t stream, uint64_t nanoseconds) {
  orKernel_t sleep = nullptr;
  check(orGetKernel(&sleep, "sleep"));
  check(orLaunchKernel(sleep, &nanoseconds, sizeof(nanoseconds), stream));
}

// Copies from the source to the device on another thread, and returns that thread once the worker has begun to copy.
std::thread copy_queued(const void* source, void (*then)(void*), void* argument) {
  void* target = nullptr;
  void* alias = nullptr;
  orStream_t stream = nullptr;
  check(orMalloc(&target, kBytes));
  check(orStreamCreate(&stream));
  check(orGetHostAlias(&alias, target, kBytes));
  sleep_on(stream, 20'000'000);  // keeps the stream busy, so that the copy is queued
  std::thread thread([=] {
    check(orMemcpyAsync(target, source, kBytes, orMemcpyHostToDevice, stream));
    then(argument);
  });
  const volatile char* const arrived = static_cast<char*>(alias);
  while (arrived[0] == 0 && arrived[kBytes - 1] == 0) std::this_thread::yield();
  return thread;
}

// The thread unmaps the source when the copy has returned.
void end_while_pageable_memory_is_copied() {
  void* const source = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(source, 1, kBytes);
  copy_queued(source, [](void* memory) { munmap(memory, kBytes); }, source).detach();
  std::exit(0);
}

// The copy from pinned memory returns at once. The thread frees the memory, which waits for the copy.
void end_while_pinned_memory_is_copied() {
  void* source = nullptr;
  check(orMallocHost(&source, kBytes));
  std::memset(source, 1, kBytes);
  copy_queued(source, [](void* memory) { check(orFreeHost(memory)); }, source).detach();
  std::exit(0);
}

const char* answer(orError_t error) { return orGetErrorName(error); }

// Constructed before the driver starts, so destroyed after the driver has ended its workers.
struct Late {
  bool active = false;
  orStream_t idle = nullptr;
  orStream_t busy = nullptr;
  void* memory = nullptr;
  void* pinned = nullptr;

  ~Late() {
    if (!active) return;
    char bytes[8] = "";
    std::printf("idle: %s, %s\n", answer(orStreamQuery(idle)), answer(orStreamSynchronize(idle)));
    std::printf("busy: %s, %s\n", answer(orStreamQuery(busy)), answer(orStreamSynchronize(busy)));
    std::printf("%s\n", orGetErrorDetail());
    std::printf("destroy: %s\n", answer(orStreamDestroy(busy)));
    std::printf("copies: %s, %s\n", answer(orMemcpy(bytes, memory, 8, orMemcpyDeviceToHost)),
                answer(orMemcpyAsync(memory, bytes, 8, orMemcpyHostToDevice, idle)));
    std::printf("fill: %s\n", answer(orMemsetAsync(memory, 1, 8, idle)));
    std::printf("free: %s, %s\n", answer(orFree(memory)), answer(orFreeHost(pinned)));
    std::printf("reset: %s\n", answer(orDeviceReset()));
    std::fflush(stdout);
  }
};
Late late;

void end_and_call_the_driver_afterwards() {
  check(orStreamCreate(&late.idle));
  check(orStreamCreate(&late.busy));
  check(orMalloc(&late.memory, 8));
  check(orMallocHost(&late.pinned, 8));
  sleep_on(late.idle, 0);
  check(orStreamSynchronize(late.idle));
  sleep_on(late.busy, kHour);
  sleep_on(late.busy, kHour);
  late.active = true;
  std::exit(0);
}

// A waiting thread must not hold a lock that the calls at the end of the process need.
void end_while_a_thread_destroys_the_stream() {
  check(orStreamCreate(&late.idle));
  check(orStreamCreate(&late.busy));
  check(orMalloc(&late.memory, 8));
  check(orMallocHost(&late.pinned, 8));
  sleep_on(late.busy, kHour);
  std::atomic<bool> started{false};
  std::thread([&started] {
    started = true;
    check(orStreamDestroy(late.busy));
    std::printf("the wait of a thread returned\n");
  }).detach();
  while (!started) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  late.active = true;
  std::exit(0);
}

}  // namespace

int main(int, char** arguments) {
  const std::string way = arguments[1];
  if (way == "pageable") end_while_pageable_memory_is_copied();
  if (way == "pinned") end_while_pinned_memory_is_copied();
  if (way == "afterwards") end_and_call_the_driver_afterwards();
  if (way == "destroying") end_while_a_thread_destroys_the_stream();
  return 2;
}
