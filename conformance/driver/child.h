// A forked child of a check. What fails in it fails the check.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "check.h"

namespace conformance {

class Child {
 public:
  explicit Child(const std::function<void()>& body, Where where = Where::current());
  // Kills a child that was not finished.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits for the child. Fails with what the child failed with, or with how it ended.
  void finish(const std::string& claim, Where where = Where::current());
  // Kills the child, and waits until it has ended.
  void kill();

 private:
  pid_t process_ = -1;
  int report_ = -1;
};

}  // namespace conformance
