// Host threads for communication: the caller of a collective must not wait for other processes, so something else does.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace openreg {

// LITERALINCLUDE START: distributed-thread-class
// Runs tasks on at most `limit` threads, which start when they are first needed and are then reused. With a limit of 1
// the tasks run in the order in which they were given. All functions may be called on any thread.
class TaskThreads {
 public:
  using Task = std::function<void()>;  // must not throw

  TaskThreads(std::string name, size_t limit) : name_(std::move(name)), limit_(limit) {}
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;
  ~TaskThreads() { finish(); }

  // Throws: after finish(), and if no thread can be started. The task does not run then.
  void run(Task task);

  // Takes no task any more. Waits until those that were given have run, and all threads have ended. Requires: not
  // called by a task.
  void finish();

  // Whether one of the tasks is the caller.
  bool is_called_by_task();

 private:
  void loop();

  const std::string name_;  // as tools show it: Linux keeps 15 characters
  const size_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool is_closed_ = false;
};
// LITERALINCLUDE END: distributed-thread-class

}  // namespace openreg
