// What an error does in a function that must not throw: a C++ program that links the backend.
#include <ATen/ops/ones.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

namespace {

void lose_device() {
  using Inject = int (*)(int fault, int device, unsigned count);
  const auto inject = reinterpret_cast<Inject>(dlsym(RTLD_DEFAULT, "orInjectFault"));
  const int device_lost = 3;
  TORCH_CHECK(inject != nullptr && inject(device_lost, 0, 1) == 0);
}

// LITERALINCLUDE START: errors-cpp-noexcept
// Destroys an event of a lost device, which the driver refuses.
void destroy_event_of_lost_device() {
  c10::Event event(c10::kPrivateUse1);
  event.record(c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kPrivateUse1, 0)));
  lose_device();
}

// A handler for PyTorch's warnings that throws.
struct ThrowingHandler final : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    const c10::SourceLocation& place = warning.source_location();
    std::cout << "  a warning of " << place.function << ", in line " << place.line << ":\n    " << warning.msg()
              << '\n';
    throw std::runtime_error("this warning is an error");
  }
};

// The same destructor, written so that it throws.
struct ThrowingEvent {
  ~ThrowingEvent() { at::ones({1}, c10::Device(c10::kPrivateUse1, 0)); }
};
// LITERALINCLUDE END: errors-cpp-noexcept

// Runs the function in a process of its own, and prints how it ends.
void print_end(const char* what, void (*function)()) {
  std::cout << what << ":\n" << std::flush;
  const pid_t child = fork();
  if (child == 0) {
    // The C++ runtime prints the exception there, with a stack trace.
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    function();
    std::cout << std::flush;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::cout << "  killed by " << sigabbrev_np(WTERMSIG(status)) << '\n';
  } else {
    std::cout << "  exit status " << WEXITSTATUS(status) << '\n';
  }
}

void warn_through_a_handler_that_throws() {
  ThrowingHandler handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  destroy_event_of_lost_device();
  std::cout << "  the destructor has returned\n";
}

void throw_in_a_destructor() {
  at::ones({1}, c10::Device(c10::kPrivateUse1, 0));
  lose_device();
  const ThrowingEvent event;
}

}  // namespace

int main() {
  c10::register_privateuse1_backend("openreg");
  print_end("warn() and a handler that throws", warn_through_a_handler_that_throws);
  print_end("a destructor that throws", throw_in_a_destructor);
}
