// How a group ends: by a lost rank, by an abort, by its program, or with its process. Called on any thread, without the
// GIL.
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <stdexcept>
#include <utility>

#include <pthread.h>

#include "distributed/staged_backend.h"

namespace openreg {
namespace {

constexpr std::chrono::seconds kPatience{2};
constexpr std::chrono::milliseconds kGrace{200};

struct LiveBackends {
  std::mutex mutex;
  std::set<StagedBackend*> backends;
};

// Never destroyed: the last process group may end after the static objects.
LiveBackends& live_backends() {
  static auto* const instance = new LiveBackends();
  return *instance;
}

// LITERALINCLUDE START: distributed-copies
// A forked child has copies of the groups, but not of their threads, and shares their connections with its parent. It
// keeps them, whoever drops them: a destructor would wait for ever, or close what the parent uses.
void keep_copies() {
  for (StagedBackend* backend : live_backends().backends) c10::raw::intrusive_ptr::incref(backend);
  live_backends().mutex.unlock();
}

void protect_forked_children() {
  static const int not_registered =
      pthread_atfork([] { live_backends().mutex.lock(); }, [] { live_backends().mutex.unlock(); }, keep_copies);
  TORCH_CHECK(not_registered == 0, "openreg: the handler that keeps groups in forked processes cannot be registered");
}
// LITERALINCLUDE END: distributed-copies

const char* reason(const std::exception& error) {
  const auto* with_backtrace = dynamic_cast<const c10::Error*>(&error);
  return with_backtrace != nullptr ? with_backtrace->what_without_backtrace() : error.what();
}

}  // namespace

StagedBackend::StagedBackend(c10::intrusive_ptr<c10d::Backend> host, c10::intrusive_ptr<c10d::Backend> control,
                             Create create, c10::intrusive_ptr<c10d::Store> store)
    : Backend(host->getRank(), host->getSize()),
      create_(create),
      store_(std::move(store)),
      host_(std::move(host)),
      control_(std::move(control)) {
  protect_forked_children();
  const std::lock_guard lock(live_backends().mutex);
  live_backends().backends.insert(this);
}

StagedBackend::~StagedBackend() {
  {
    const std::lock_guard lock(live_backends().mutex);
    live_backends().backends.erase(this);
  }
  StagedBackend::shutdown();
}

// LITERALINCLUDE START: distributed-disconnect
void StagedBackend::wait(c10d::Work& exchange) {
  try {
    TORCH_CHECK(exchange.wait(), "it was aborted");
  } catch (const std::exception& error) {
    rest_if_ended();
    disconnect(error);
    throw;
  }
  rest_if_ended();
}

// A rank that has lost another one closes its connections to all. Otherwise a third would wait for this one, which is
// alive but does not continue, until its timeout.
void StagedBackend::disconnect(const std::exception& error) {
  using Groups = std::vector<c10::intrusive_ptr<c10d::Backend>>;
  const auto lost = std::make_shared<Groups>(2);
  {
    const std::lock_guard lock(mutex_);
    if (host_ == nullptr) return;
    failure_ = reason(error);
    lost->front().swap(host_);
    lost->back().swap(control_);
    is_leaving_ = true;
  }
  // Their destructors wait for the exchanges that they run. The operation that has failed must not.
  const auto leave = [this, lost] {
    lost->clear();
    {
      const std::lock_guard lock(mutex_);
      is_leaving_ = false;
    }
    changed_.notify_all();
  };
  run_apart(leave);
}

c10::intrusive_ptr<c10d::Backend> StagedBackend::connected(const c10::intrusive_ptr<c10d::Backend>& group) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, host_ != nullptr, "an earlier operation of the process group has failed (",
                   failure_, "); destroy the group and create another");
  return group;
}
// LITERALINCLUDE END: distributed-disconnect

// LITERALINCLUDE START: distributed-failure
// The host library says what happened, but not to which operation.
c10::DistBackendError StagedBackend::error_of(const OperationName& name, const std::exception& error) {
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  return {here, c10::str(name.str(), " failed: ", reason(error))};
}

void StagedBackend::fail(StagedWork& work, const OperationName& name, const std::exception& error) {
  work.fail(std::make_exception_ptr(error_of(name, error)));
}

std::map<c10::intrusive_ptr<StagedWork>, WorkPtr> StagedBackend::pending() {
  const std::lock_guard lock(mutex_);
  return in_flight_;
}

void StagedBackend::abort() {
  if (is_copy()) return;
  for (const auto& [work, exchange] : pending()) {
    fail(*work, work->name(), std::runtime_error("the process group was aborted"));
    if (exchange != nullptr && !work->is_collective()) exchange->abort();
  }
}

void StagedBackend::shutdown() {
  if (is_copy()) return;
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_ && (is_leaving_ || !in_flight_.empty())) return;  // Their threads rest until the process is gone.
  }
  TORCH_CHECK(
      !waiters_.is_called_by_task(),
      "openreg: a callback of an operation cannot shut down or destroy its own process group, since a thread of "
      "the group runs it: do it after wait()");
  {  // What waits for its turn has yet to be given to the threads.
    std::unique_lock lock(mutex_);
    is_closed_ = true;
    changed_.wait(lock, [this] {
      return has_ended_ ||
             std::ranges::none_of(in_flight_, [](const auto& operation) { return operation.first->is_collective(); });
    });
  }
  starter_.finish();  // which may still give tasks to the waiters
  direct_.finish();
  abort_receives();
  waiters_.finish();
  windows_.reset();
}
// LITERALINCLUDE END: distributed-failure

// What arrives at the same time is taken nevertheless: the host library aborts also a receive that has succeeded.
void StagedBackend::abort_receives() {
  const auto is_receive = [](const auto& operation) {
    const c10d::OpType type = operation.first->retrieveOpType();
    return type == c10d::OpType::RECV || type == c10d::OpType::RECVANYSOURCE;
  };
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kGrace, [&] { return std::ranges::none_of(in_flight_, is_receive); });
  }
  for (const auto& operation : pending()) {
    if (is_receive(operation) && operation.second != nullptr) operation.second->abort();
  }
}

// LITERALINCLUDE START: distributed-exit
// An operation whose exchange has ended ends soon, so this waits for it. One whose exchange goes on would let go of its
// tensors at any time later, which needs an interpreter that is there no more, so its thread stops.
bool StagedBackend::end() {
  if (is_copy()) return false;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  abort();
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [this] {
    return !is_leaving_ && std::all_of(in_flight_.begin(), in_flight_.end(), [](const auto& operation) {
      return operation.second != nullptr && !operation.second->isCompleted();
    });
  });
  has_ended_ = true;
  return in_flight_.empty() && !is_leaving_;
}

void StagedBackend::rest_if_ended() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !has_ended_; });
}

void end_staged_backends() {
  const std::lock_guard lock(live_backends().mutex);
  for (StagedBackend* backend : live_backends().backends) {
    if (backend->end()) {
      backend->shutdown();
    } else {
      c10::raw::intrusive_ptr::incref(backend);
    }
  }
}
// LITERALINCLUDE END: distributed-exit

}  // namespace openreg
