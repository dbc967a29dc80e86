// The threads of a process group: one starts the exchanges in order, others wait for them. Called on any thread.
#include "distributed/task_threads.h"

#include <c10/util/Exception.h>
#include <c10/util/thread_name.h>

#include <algorithm>
#include <utility>

namespace openreg {

// LITERALINCLUDE START: distributed-threads-run
void TaskThreads::run(Task task) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!is_closed_, "the process group was shut down; create another");
  // First the thread: if none can be started, the caller must not find that the task runs nevertheless.
  if (idle_ <= waiting_.size() && threads_.size() < limit_) {
    threads_.emplace_back([this] { loop(); });
  }
  waiting_.push_back(std::move(task));
  changed_.notify_one();
}

void TaskThreads::loop() {
  c10::setThreadName(name_);
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return !waiting_.empty() || is_closed_; });
    --idle_;
    if (waiting_.empty()) return;
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // releases what it holds, such as tensors, without the lock
    lock.lock();
  }
}
// LITERALINCLUDE END: distributed-threads-run

void TaskThreads::finish() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

bool TaskThreads::is_called_by_task() {
  const std::lock_guard lock(mutex_);
  const auto is_this = [](const std::thread& thread) { return thread.get_id() == std::this_thread::get_id(); };
  return std::any_of(threads_.begin(), threads_.end(), is_this);
}

}  // namespace openreg
