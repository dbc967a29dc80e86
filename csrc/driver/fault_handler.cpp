// Signal handlers that recognize device addresses, and a kernel that divides by zero. Everything on their path is
// async-signal-safe: no lock, no stdio, and no allocation but one by the C library, which makes the variables of a
// thread that has never called the driver when `inside_kernel()` looks at them.
#include "fault_handler.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "error.h"
#include "stream.h"

namespace openreg::driver {
namespace {

const AddressSpace* g_space = nullptr;  // set before the handler is installed, never changed afterwards
struct sigaction g_previous_segv;
struct sigaction g_previous_fpe;

// LITERALINCLUDE START: memory-fault-line
// A line of text, built without the C library's formatted output.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const size_t taken = std::min(text.size(), sizeof(text_) - used_);
    std::memcpy(text_ + used_, text.data(), taken);
    used_ += taken;
    return *this;
  }
  Line& operator<<(int number) { return append(static_cast<uint64_t>(number), 10); }
  Line& hexadecimal(uint64_t number) { return (*this << "0x").append(number, 16); }
  void write_to_stderr() const {
    // There is nowhere left to report a failed write.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text_, used_);
  }

 private:
  Line& append(uint64_t number, int base) {
    const auto result = std::to_chars(text_ + used_, text_ + sizeof(text_), number, base);
    used_ = static_cast<size_t>(result.ptr - text_);
    return *this;
  }

  char text_[320];
  size_t used_ = 0;
};
// LITERALINCLUDE END: memory-fault-line

// LITERALINCLUDE START: memory-fault-address
// The faulting address. A handler installed later, such as Python's faulthandler, sees the fault first, restores this
// one and raises the signal again; that signal carries no address, but the thread's context still holds the address of
// its last fault.
const void* fault_address(const siginfo_t& info, const void* context) {
  if (info.si_code != SI_TKILL) return info.si_addr;
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(machine.gregs[REG_CR2]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(machine.fault_address);
#endif
}
// LITERALINCLUDE END: memory-fault-address

// LITERALINCLUDE START: memory-fault-chain
// Passes the fault to the previously installed handler. If there is none, restores the default action: the access is
// repeated on return from this handler, and ends the process with the usual signal and core dump. A signal that was
// sent has no access to repeat, and is sent again, unless the process ignores it.
void chain(const struct sigaction& previous, int signal_number, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal_number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal_number);
  } else {
    const bool was_sent = info->si_code <= 0;
    if (was_sent && previous.sa_handler == SIG_IGN) return;
    signal(signal_number, SIG_DFL);
    if (was_sent) raise(signal_number);
  }
}
// LITERALINCLUDE END: memory-fault-chain

// LITERALINCLUDE START: memory-fault-message
void explain(Location location, const void* address, std::string_view what, std::string_view advice) {
  Line line;
  line << "openreg: " << what << " at openreg:" << location.device << " + ";
  line.hexadecimal(location.offset) << " (address ";
  line.hexadecimal(reinterpret_cast<uintptr_t>(address));
  line << "). " << advice << ".\n";
  line.write_to_stderr();
}

void handle_fault(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const void* const address = fault_address(*info, context);
  if (const auto location = g_space->locate(address)) {
    explain(*location, address, "host code accessed device memory",
            inside_kernel()
                ? "A kernel finds the bytes at another address: pass it the pointer as an orArgumentPointer, "
                  "or use orGetHostAlias"  // NOT PROVEN: needs a faulty kernel
                : "Copy it to the host first, for example with tensor.cpu()");
  } else if (const auto backing = g_space->locate_backing(address)) {
    explain(*backing, address, "a kernel accessed memory that is not allocated",  // NOT PROVEN: as above
            "Check its indices");  // NOT PROVEN: as above
  }
  errno = saved_errno;
  chain(g_previous_segv, signal_number, info, context);
}
// LITERALINCLUDE END: memory-fault-message

// Code of the host that divides by zero is not explained: only the signal's usual handling takes place.
void handle_arithmetic(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  if (inside_kernel()) {
    Line line;
    line << "openreg: a kernel divided an integer by zero, or the smallest integer by -1. Check its divisors.\n";
    line.write_to_stderr();
  }
  errno = saved_errno;
  chain(g_previous_fpe, signal_number, info, context);
}

// LITERALINCLUDE START: memory-fault-handler
orError_t handle(int signal_number, const char* name, void (*handler)(int, siginfo_t*, void*),
                 struct sigaction* previous) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  const int refused = sigaction(signal_number, &action, previous);
  if (refused != 0) return fail(orErrorInitialization, "%s cannot be handled (%s)", name, std::strerror(errno));
  return orSuccess;
}

}  // namespace

orError_t explain_device_faults(const AddressSpace& space) {
  g_space = &space;
  if (const orError_t error = handle(SIGSEGV, "SIGSEGV", handle_fault, &g_previous_segv)) return error;
  return handle(SIGFPE, "SIGFPE", handle_arithmetic, &g_previous_fpe);
}
// LITERALINCLUDE END: memory-fault-handler

}  // namespace openreg::driver
