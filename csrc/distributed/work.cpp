// Work: what a collective returns. Its future carries an event of the device, so that a stream can wait for it.
#include "distributed/work.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <utility>

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

bool StagedWork::isCompleted() { return future_->completed(); }

bool StagedWork::isSuccess() const { return future_->completed() && !future_->hasError(); }

CoalescedWork::CoalescedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {
  const auto type = c10::ListType::create(c10::TensorType::get());
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(c10::FutureType::create(type));
  for (const auto& work : works_) futures.push_back(work->getFuture());
  future_ = c10::collectAll(futures);
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
