// One operation in flight, as torch.distributed's callers see it: Work, and its future.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "distributed/turns.h"

namespace openreg {

// LITERALINCLUDE START: distributed-work-class
// How messages name an operation: "all_reduce number 3 of rank 1".
struct OperationName {
  const char* operation;
  uint64_t number;
  int rank;
  std::string str() const;
};

// wait() blocks the host until the exchange with the other processes has ended, and throws if it failed, or if a
// callback waits for a collective that comes after its own. The copy of
// the result to the device may still be queued then: wait() makes the caller's current stream wait for it. A caller
// that asks isCompleted() instead orders no stream, so the answer is true only once that copy has passed.
class StagedWork final : public c10d::Work {
 public:
  StagedWork(const OperationName& name, c10d::OpType type, c10::Device device, std::vector<at::Tensor> results);

  bool isCompleted() override;
  bool isSuccess() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  const OperationName& name() const { return name_; }
  bool is_collective() const { return !c10d::isP2POp(opType_); }
  const std::shared_ptr<Turn>& turn() const { return turn_; }  // of a collective
  std::vector<at::Tensor> result() override { return results_; }
  int sourceRank() const override { return source_rank_; }
  uint64_t getSequencenumber() const override {  // NOT PROVEN: only C++ asks for it
    return name_.number;                         // NOT PROVEN: as above
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // The first call of either ends the work; later ones do nothing, as when an aborted exchange ends after all.
  // complete() requires that the current stream is the one on which the results will be.
  void complete(int source_rank);
  void fail(const std::exception_ptr& error);
  // The host waits for the copies to the device. Requires: complete() was called, by this thread.
  void wait_for_copies() const { copied_.synchronize(); }  // NOT PROVEN: for memory of another library

 private:
  const OperationName name_;
  const std::shared_ptr<Turn> turn_ = std::make_shared<Turn>();
  const std::vector<at::Tensor> results_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::Event copied_{c10::kPrivateUse1};  // recorded before the future is complete
  std::atomic<int> source_rank_ = -1;
  std::atomic_flag has_ended_;
};
// LITERALINCLUDE END: distributed-work-class

// Several operations that were started together. Waiting for it waits for all of them, and so does its future.
class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<c10::intrusive_ptr<StagedWork>> works);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;  // of the first operation that has failed
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override { wait(); }
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  const std::vector<c10::intrusive_ptr<StagedWork>> works_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace openreg
