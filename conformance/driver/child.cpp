// Forks, and carries the failure of a child to its parent.
#include "child.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace conformance {
namespace {

// Begins the report of a child that found that the driver does not offer what the check asks about.
constexpr char kNotOffered = '\1';

}  // namespace

Child::Child(const std::function<void()>& body, Where where) {
  int ends[2];
  if (pipe(ends) != 0) fail("the host has a pipe", std::strerror(errno), where);
  process_ = fork();
  if (process_ < 0) fail("the host can fork", std::strerror(errno), where);
  if (process_ == 0) {
    std::string wrong;
    try {
      body();
    } catch (const Failed& failed) {
      wrong = failed.expected + ": " + failed.seen;
    } catch (const Missing& missing) {
      wrong = std::string("the library has no ") + missing.function;
    } catch (const NotOffered& absent) {
      wrong = kNotOffered + absent.reason;
    }
    const ssize_t written = write(ends[1], wrong.data(), wrong.size());
    std::exit(written == static_cast<ssize_t>(wrong.size()) ? 0 : 1);
  }
  close(ends[1]);
  report_ = ends[0];
}

Child::~Child() {
  if (process_ > 0) kill();
}

void Child::finish(const std::string& claim, Where where) {
  char wrong[1024] = "";
  const ssize_t bytes = read(report_, wrong, sizeof(wrong) - 1);
  close(report_);
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  if (bytes > 0 && wrong[0] == kNotOffered) not_offered(wrong + 1);
  if (bytes > 0) fail(claim, wrong, where);
  if (WIFSIGNALED(status)) fail(claim, std::string("the child died of SIG") + sigabbrev_np(WTERMSIG(status)), where);
  if (status != 0) fail(claim, "the child left with status " + std::to_string(WEXITSTATUS(status)), where);
}

void Child::kill() {
  ::kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  close(report_);
  process_ = -1;
}

}  // namespace conformance
