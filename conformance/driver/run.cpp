// The process of a check writes its result to a file that it shares with its parent, and leaves by std::exit, so that
// the driver's own handlers run: a driver that hangs at the end of a process is found as well.
#include "run.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

namespace conformance {
namespace {

// What the two processes share. The texts are cut off where they do not fit.
struct Shared {
  std::atomic<const char*> last_call{nullptr};
  std::atomic<bool> written{false};
  Outcome outcome = Outcome::kPassed;
  char expected[1024] = "";
  char seen[1024] = "";
  char where[256] = "";
  char reason[1024] = "";
};

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "driver_conformance: %s: %s\n", what, std::strerror(errno));
  std::exit(2);
}

template <size_t kSize>
void write(char (&field)[kSize], const std::string& text) {
  std::snprintf(field, kSize, "%s", text.c_str());
}

void write(Shared& shared, const Failed& failed) {
  shared.outcome = Outcome::kFailed;
  write(shared.expected, failed.expected);
  write(shared.seen, failed.seen);
  const std::string file = failed.where.file_name();
  write(shared.where, file.substr(file.rfind('/') + 1) + ":" + std::to_string(failed.where.line()));
}

[[noreturn]] void run_in_child(const Check& check, const char* library, Shared& shared, std::FILE* output,
                               pid_t parent) {
  dup2(fileno(output), STDOUT_FILENO);
  dup2(fileno(output), STDERR_FILENO);
  setpgid(0, 0);  // so that processes of the check end with it
  // Otherwise a check that hangs after its parent has died would hold the device forever.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before the call
  last_call = &shared.last_call;
  try {
    driver.load(library);
    check.run();
  } catch (const Failed& failed) {
    write(shared, failed);
  } catch (const NotOffered& missing) {
    shared.outcome = Outcome::kNotOffered;
    write(shared.reason, missing.reason);
  } catch (const Missing& missing) {
    shared.outcome = Outcome::kMissing;
    write(shared.reason, missing.function);
  } catch (const std::exception& error) {
    shared.outcome = Outcome::kFailed;
    write(shared.expected, "the host can run the check");
    write(shared.seen, error.what());
  }
  shared.written.store(true);
  std::exit(0);
}

std::string last_line(std::FILE* output) {
  std::string last;
  char line[512];
  std::rewind(output);
  while (std::fgets(line, sizeof(line), output) != nullptr) {
    if (line[0] != '\n') last = line;
  }
  while (!last.empty() && last.back() == '\n') last.pop_back();
  return last.empty() ? "" : "; its last words: " + last;
}

// Where the process was, in words.
std::string position(const Shared& shared) {
  if (shared.written.load()) return "at its end, after the check itself";
  const char* const call = shared.last_call.load();
  return call != nullptr ? std::string("in or after ") + call : "before its first call of the driver";
}

// Waits for the process; -1 when it took too long and was killed.
int wait_for(pid_t child, Clock::time_point end) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() >= end) {
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  kill(-child, SIGKILL);  // what the check itself may have left behind
  return status;
}

}  // namespace

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kCrashed:
      return "crashed";
    case Outcome::kHung:
      return "hung";
    case Outcome::kMissing:
      return "missing";
    case Outcome::kNotOffered:
      break;
  }
  return "not offered";
}

Result run_check(const Check& check, const char* library, milliseconds limit) {
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) give_up("no shared memory");
  Shared& shared = *new (memory) Shared;
  std::FILE* const output = std::tmpfile();
  if (output == nullptr) give_up("no temporary file");
  std::fflush(nullptr);  // or the child would write it again
  const auto start = Clock::now();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) give_up("fork");
  if (child == 0) run_in_child(check, library, shared, output, parent);
  const int status = wait_for(child, start + limit);

  Result result;
  result.seconds = milliseconds_since(start) / 1000;
  if (status == 0 && shared.written.load()) {
    result.outcome = shared.outcome;
    result.expected = shared.expected;
    result.seen = shared.seen;
    result.where = shared.where;
    result.reason = shared.reason;
  } else {
    result.outcome = status == -1 ? Outcome::kHung : Outcome::kCrashed;
    result.expected = "the process of the check comes to its end";
    const std::string how = status == -1          ? "it did not end within " + std::to_string(limit.count()) + " ms"
                            : WIFSIGNALED(status) ? std::string("it died of SIG") + sigabbrev_np(WTERMSIG(status))
                                                  : "it left with status " + std::to_string(WEXITSTATUS(status));
    result.seen = how + ", " + position(shared) + last_line(output);
    // What a check has found explains more than how its process ended then.
    if (shared.written.load() && shared.outcome == Outcome::kFailed) {
      result.outcome = Outcome::kFailed;
      result.expected = shared.expected;
      result.seen = std::string(shared.seen) + "; then " + result.seen;
      result.where = shared.where;
    }
  }
  std::fclose(output);
  munmap(memory, sizeof(Shared));
  return result;
}

}  // namespace conformance
