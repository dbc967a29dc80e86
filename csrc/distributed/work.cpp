// Work: what a collective returns. Its future carries an event of the device, so that a stream can wait for it.
#include "distributed/work.h"

#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "runtime/stream.h"

namespace openreg {

std::string OperationName::str() const { return c10::str(operation, " number ", number, " of rank ", rank); }

// LITERALINCLUDE START: distributed-work-wait
StagedWork::StagedWork(const OperationName& name, c10d::OpType type, c10::Device device,
                       std::vector<at::Tensor> results)
    : Work(name.rank, type, name.operation, results),
      name_(name),
      results_(std::move(results)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       std::vector<c10::Device>{device})) {}

bool StagedWork::wait(std::chrono::milliseconds timeout) {
  TORCH_CHECK(!Turns::is_held_up_by_caller(*turn_), name_.str(),
              ": a callback waits for it, but it cannot start before that callback has returned; wait in the program");
  if (timeout != kNoTimeout) {
    std::unique_lock lock(mutex_);
    const bool has_ended = cv_.wait_for(lock, timeout, [this] { return completed_; });
    TORCH_CHECK_WITH(DistBackendError, has_ended, name_.str(), ": not complete after ", timeout.count(),
                     " ms; it continues, and can be waited for again");
  }
  future_->waitAndThrow();  // the host waits for the exchange, and the current stream for the copy
  return true;
}

void StagedWork::synchronize() {  // NOT PROVEN: deprecated in Python
  future_->waitAndThrow();        // NOT PROVEN: as above
}

// The future records an event on the current stream, for each stream that waits for the results later.
void StagedWork::complete(int source_rank) {
  copied_.record(current_stream(future_->devices().front().index()));
  if (has_ended_.test_and_set()) return;
  source_rank_ = source_rank;
  finish();
  future_->markCompleted(c10::IValue(results_));
}

void StagedWork::fail(const std::exception_ptr& error) {
  if (has_ended_.test_and_set()) return;
  finish(error);
  future_->setError(error);
}
// LITERALINCLUDE END: distributed-work-wait

bool StagedWork::isCompleted() { return future_->completed() && (future_->hasError() || copied_.query()); }

bool StagedWork::isSuccess() const { return future_->completed() && !future_->hasError() && copied_.query(); }

// The last operation to end completes the future, on streams that have waited for the copies of all.
CoalescedWork::CoalescedWork(int rank, std::vector<c10::intrusive_ptr<StagedWork>> works)
    : Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {
  const auto type = c10::ListType::create(c10::TensorType::get());
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> parts(c10::FutureType::create(type));
  std::vector<c10::Device> devices;
  for (const auto& work : works_) {
    parts.push_back(work->getFuture());
    for (const c10::Device& device : parts.get(parts.size() - 1)->devices()) devices.push_back(device);
  }
  future_ = c10::make_intrusive<c10::ivalue::Future>(type, std::move(devices));
  c10::collectAll(parts)->addCallback([future = future_, parts, results = result()](c10::ivalue::Future& all) {
    try {
      if (all.hasError()) std::rethrow_exception(all.exception_ptr());
      std::vector<c10::Stream> streams;
      for (const c10::Device& device : future->devices()) streams.push_back(stream_from_pool(device.index(), 0));
      const c10::MultiStreamGuard guard(streams);
      for (const c10::intrusive_ptr<c10::ivalue::Future>& part : parts) part->wait();
      future->markCompleted(c10::IValue(results));
    } catch (const std::exception&) {
      future->setErrorIfNeeded(std::current_exception());
    }
  });
}

bool CoalescedWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
}

bool CoalescedWork::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const {
  for (const auto& work : works_) {
    if (std::exception_ptr error = work->exception()) return error;
  }
  return nullptr;
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  for (const auto& work : works_) work->wait(timeout);
  return true;
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> results;
  for (const auto& work : works_) {
    for (const at::Tensor& tensor : work->result()) results.push_back(tensor);
  }
  return results;
}

}  // namespace openreg
