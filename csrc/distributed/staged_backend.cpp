// The life of an operation: staged on the thread that calls it, started in order by one thread, finished by another.
// Called on any thread, without the GIL.
#include "distributed/staged_backend.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/stream.h"

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

const char* reason(const std::exception& error) {
  const auto* with_backtrace = dynamic_cast<const c10::Error*>(&error);
  return with_backtrace != nullptr ? with_backtrace->what_without_backtrace() : error.what();
}

}  // namespace

StagedBackend::StagedBackend(c10::intrusive_ptr<c10d::Backend> host, c10::intrusive_ptr<c10d::Backend> control,
                             Create create)
    : Backend(host->getRank(), host->getSize()), create_(create), host_(std::move(host)), control_(std::move(control)) {
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

void StagedBackend::setTimeout(std::chrono::milliseconds timeout) {
  host()->setTimeout(timeout);
  if (const c10::intrusive_ptr<c10d::Backend> group = control()) group->setTimeout(timeout);
}

TransferStreams StagedBackend::streams(c10::DeviceIndex device) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(device);
  if (found != streams_.end()) return found->second;
  const TransferStreams made{stream_from_pool(device, kHighPriority), stream_from_pool(device, kHighPriority)};
  return streams_.emplace(device, made).first->second;
}

// LITERALINCLUDE START: distributed-checked-tensors
c10::Device StagedBackend::device_of(const char* operation, c10::ArrayRef<at::Tensor> results,
                                     c10::ArrayRef<at::Tensor> inputs) {
  std::optional<c10::Device> device;
  for (const c10::ArrayRef<at::Tensor>& list : {results, inputs}) {
    for (const at::Tensor& tensor : list) {
      TORCH_CHECK_VALUE(tensor.defined(), operation, ": a tensor is undefined");
      TORCH_CHECK_VALUE(tensor.is_privateuseone(), operation, ": expected tensors on ", c10::get_privateuse1_backend(),
                        ", but got one on ", tensor.device());
      TORCH_CHECK_TYPE(tensor.layout() == at::kStrided, operation, ": expected dense tensors, but got one of layout ",
                       tensor.layout(), "; exchange its indices and values one by one, or tensor.to_dense()");
      if (!device.has_value()) device = tensor.device();
      TORCH_CHECK_VALUE(tensor.device() == *device, operation, ": expected tensors on one device, but got ", *device,
                        " and ", tensor.device());
    }
  }
  TORCH_CHECK_VALUE(device.has_value(), operation, ": expected at least one tensor");
  refuse_capture(operation, *device);
  for (const at::Tensor& result : results) {
    TORCH_CHECK_VALUE(at::has_internal_overlap(result) != at::MemOverlap::Yes, operation,
                      ": elements of a result share memory, as those of an expanded tensor or of a sum's gradient do, "
                      "so it cannot be written; pass tensor.contiguous(), and use that one");
  }
  return *device;
}
// LITERALINCLUDE END: distributed-checked-tensors

// Before anything is recorded or counted, so that both the capture and the group go on.
void StagedBackend::refuse_capture(const char* operation, c10::Device device) {
  TORCH_CHECK_NOT_IMPLEMENTED(!is_capturing(stream_handle(current_stream(device.index()))), "openreg: ", operation,
                              " cannot be captured in a graph, since the host takes part in it: end the capture before "
                              "it, and begin another one after it");
}

// LITERALINCLUDE START: distributed-submit
WorkPtr StagedBackend::submit(Operation operation) {
  operation.staging.close();
  auto work = c10::make_intrusive<StagedWork>(operation.name, operation.type,
                                              operation.staging.streams().to_device.device(), operation.results);
  auto shared = std::make_shared<Operation>(std::move(operation));
  return begin(work, starter_, [this, shared, work] { start(shared, work); });
}

WorkPtr StagedBackend::begin(const c10::intrusive_ptr<StagedWork>& work, TaskThreads& threads, TaskThreads::Task task) {
  {
    const std::lock_guard lock(mutex_);
    in_flight_.emplace(work, nullptr);
  }
  try {
    threads.run(std::move(task));
  } catch (...) {  // The group was shut down.
    forget(work);
    throw;
  }
  if (coalesced_.has_value()) coalesced_->push_back(work);
  return work;
}

// On the one thread that starts exchanges: the host library matches the collectives of the ranks by their order.
void StagedBackend::start(const std::shared_ptr<Operation>& operation, const c10::intrusive_ptr<StagedWork>& work) {
  try {
    operation->staging.wait_until_sent();
    rest_if_ended();
    operation->staging.forget_sent();
    WorkPtr exchange = operation->exchange(*host());
    {
      const std::lock_guard lock(mutex_);
      in_flight_[work] = exchange;
    }
    waiters_.run([this, operation, work, exchange] {
      finish(*operation, *work, *exchange);
      forget(work);
    });
  } catch (const std::exception& error) {
    conclude(work,
             [work, failure = error_of(operation->name, error)] { work->fail(std::make_exception_ptr(failure)); });
    // The others have started a collective. They would take this rank's next one for it.
    if (!c10d::isP2POp(operation->type)) disconnect(error);
  }
}

void StagedBackend::conclude(const c10::intrusive_ptr<StagedWork>& work, TaskThreads::Task end) {
  run_apart([this, work, end = std::move(end)] {
    rest_if_ended();
    end();
    forget(work);
  });
}

void StagedBackend::run_apart(const TaskThreads::Task& task) {
  try {
    waiters_.run(task);
  } catch (const std::exception&) {  // NOT PROVEN: the group is being shut down, or the machine has no more threads
    task();                          // NOT PROVEN: as above
  }
}

void StagedBackend::finish(Operation& operation, StagedWork& work, c10d::Work& exchange) {
  try {
    wait(exchange);
    operation.after();
    operation.staging.copy_back();
    const c10::StreamGuard guard(operation.staging.streams().to_device);
    work.complete(operation.type == c10d::OpType::RECVANYSOURCE ? exchange.sourceRank() : -1);
    if (has_memory_of_others(operation.results)) work.wait_for_copies();
  } catch (const std::exception& error) {
    fail(work, operation.name, error);
  }
}
// LITERALINCLUDE END: distributed-submit

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
  for (const auto& [work, exchange] : pending()) {
    fail(*work, work->name(), std::runtime_error("the process group was aborted"));
    if (exchange != nullptr && c10d::isP2POp(work->retrieveOpType())) exchange->abort();
  }
}

void StagedBackend::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_ && (is_leaving_ || !in_flight_.empty())) return;  // Their threads rest until the process is gone.
  }
  TORCH_CHECK(
      !waiters_.is_called_by_task(),
      "openreg: a callback of an operation cannot shut down or destroy its own process group, since a thread of "
      "the group runs it: do it after wait()");
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

void StagedBackend::forget(const c10::intrusive_ptr<StagedWork>& work) {
  {
    const std::lock_guard lock(mutex_);
    in_flight_.erase(work);
  }
  changed_.notify_all();
}

// A group that has not ended is that of a block which has raised: PyTorch does not end it.
void StagedBackend::startCoalescing() { coalesced_.emplace(); }

WorkPtr StagedBackend::endCoalescing() {
  TORCH_CHECK(coalesced_.has_value(), "endCoalescing without startCoalescing");
  std::vector<c10::intrusive_ptr<StagedWork>> works = std::move(*coalesced_);
  coalesced_.reset();
  return c10::make_intrusive<CoalescedWork>(getRank(), std::move(works));
}

// LITERALINCLUDE START: distributed-split
// The store is that of the whole group, where the groups that are split off at the same time must not find each other.
c10::intrusive_ptr<c10d::Backend> StagedBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                       const std::vector<int>& ranks,
                                                       const c10::intrusive_ptr<Options>& options) {
  const auto place = std::find(ranks.begin(), ranks.end(), getRank());
  if (place == ranks.end()) return nullptr;
  auto own = c10::make_intrusive<c10d::PrefixStore>(options->group_name, store);
  return create_(own, static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()), options->timeout);
}
// LITERALINCLUDE END: distributed-split

// LITERALINCLUDE START: distributed-exit
// An operation whose exchange has ended ends soon, so this waits for it. One whose exchange goes on would let go of its
// tensors at any time later, which needs an interpreter that is there no more, so its thread stops.
bool StagedBackend::end() {
  starter_.close();
  direct_.close();
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
  const bool is_child = is_in_bad_fork();  // which has no copy of the threads
  for (StagedBackend* backend : live_backends().backends) {
    if (!is_child && backend->end()) {
      backend->shutdown();
    } else {
      c10::raw::intrusive_ptr::incref(backend);
    }
  }
}
// LITERALINCLUDE END: distributed-exit

}  // namespace openreg
