// The collectives of the device, over a library that knows the host alone.
//
// torch.distributed calls one c10d::Backend for each device type of a process group. This one copies the tensors to the
// host, exchanges them there with another c10d::Backend, and copies the results back. Large tensors of ranks on one
// machine stay on the device.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "distributed/direct_exchange.h"
#include "distributed/reduction.h"
#include "distributed/staging.h"
#include "distributed/task_threads.h"
#include "distributed/turns.h"
#include "distributed/windows.h"
#include "distributed/work.h"
#include "runtime/export.h"

namespace openreg {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// LITERALINCLUDE START: distributed-options
// What can be chosen for a group: the timeout, which the base class has.
struct StagedOptions final : c10d::Backend::Options {
  explicit StagedOptions(std::chrono::milliseconds timeout) : Options("staged", timeout) {}
};

// Makes the backend of a group on one of its ranks; the others do the same. May be called without the GIL.
using Create = c10::intrusive_ptr<c10d::Backend> (*)(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                     std::chrono::milliseconds timeout);
// LITERALINCLUDE END: distributed-options

// Thread safety: as for any process group, all ranks must call the same collectives in the same order, so calls from
// several threads need an order of their own. Turns gives one to what callbacks call.
class OPENREG_EXPORT StagedBackend final : public c10d::Backend {
 public:
  // `host` is a process group of the same ranks for CPU tensors, which nothing else may use: its collectives must
  // start in the order of ours. `control` is another one, through which ranks that share device memory wait for each
  // other, or null. `create` makes the backends of groups that are split off, which find each other through `store`; no
  // other group may use that.
  StagedBackend(c10::intrusive_ptr<c10d::Backend> host, c10::intrusive_ptr<c10d::Backend> control, Create create,
                c10::intrusive_ptr<c10d::Store> store);
  ~StagedBackend() override;

  // LITERALINCLUDE START: distributed-backend-members
  const std::string getBackendName() const override { return "staged"; }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<StagedOptions>(host()->getBackendOptions()->timeout);
  }
  void setTimeout(std::chrono::milliseconds timeout) override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                        std::vector<int64_t>& input_rows, const c10d::AllToAllOptions& options) override;

  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  // Several operations, and one Work for all of them. Each starts at once nevertheless, so PyTorch need not collect the
  // sends and receives of batch_isend_irecv: if one of them raised, it would collect all later operations as well.
  bool supportsCoalescing() const override { return false; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  // A group of some of the ranks, for torch.distributed.split_group; null on a rank that is not among them.
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;

  // A counter of the collectives, which every rank starts at 0. A debugging aid: equal numbers on all ranks mean that
  // none has skipped one.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collectives_; }

  // Waits for all operations, which end at their timeouts at the latest, and for their callbacks. The destructor does,
  // too. Receives are aborted: what does not come at once is wanted no more. A callback cannot wait for its own thread:
  // the call raises, and a callback that drops the last reference to the group ends the process.
  void shutdown() override;
  // Every pending operation fails at once. An exchange that the host library cannot end goes on until its timeout.
  void abort() override;
  // At the end of the process: aborts, and returns whether no operation is left. Those that are left never finish.
  bool end();
  // In a forked child, these three do nothing.
  // LITERALINCLUDE END: distributed-backend-members

 private:
  // LITERALINCLUDE START: distributed-operation
  // One call. It lives until its results are on the device.
  struct Operation {
    OperationName name;
    c10d::OpType type;
    Staging staging;
    Tensors results;  // what the future holds
    // Starts the exchange of the host tensors. Runs on the thread that keeps the order.
    std::function<WorkPtr(c10d::Backend&)> exchange;
    // Work on the host between the exchange and the copies to the device.
    std::function<void()> after = [] {};
  };
  // LITERALINCLUDE END: distributed-operation

  // LITERALINCLUDE START: distributed-direct-operation
  // One call that goes through windows.
  struct DirectOperation {
    OperationName name;
    c10d::OpType type;
    c10::Device device;
    std::chrono::milliseconds timeout;  // of each meeting; kUnsetTimeout is that of the group
    Tensors results;
    Tensors from = {};  // the inputs, without gaps
    Tensors into = {};  // each result without gaps: its own memory, or other memory that is copied there in the end
    std::function<void(DirectExchange&)> exchange = {};
    c10::Event ready{c10::kPrivateUse1};  // the work that the caller queued before
    c10::Event done{c10::kPrivateUse1};  // the last copy
  };
  // LITERALINCLUDE END: distributed-direct-operation

  OperationName next(const char* collective) {
    ++collectives_;
    return next_transfer(collective);
  }
  // A send or a receive, which other ranks know nothing of.
  OperationName next_transfer(const char* operation) { return {operation, ++number_, getRank()}; }
  // Whether this process was forked from that of the group: it has a copy of the group, but not of its threads.
  bool is_copy() const { return process_ != getpid(); }
  // Throws: NotImplementedError, if a graph captures the device's current stream; an error in a forked child.
  void expect_possible(const char* operation, c10::Device device) const;
  // The device of an operation's tensors: those that this rank writes, and those that it only reads.
  // Throws: unless all of them are dense tensors of one device of this backend, and each element of a result has memory
  // of its own; as expect_possible.
  c10::Device device_of(const char* operation, c10::ArrayRef<at::Tensor> results,
                        c10::ArrayRef<at::Tensor> inputs = {}) const;
  // The staging of an operation on these tensors.
  // Throws: as device_of.
  Staging stage(const char* operation, c10::ArrayRef<at::Tensor> results, c10::ArrayRef<at::Tensor> inputs = {}) {
    return Staging(streams(device_of(operation, results, inputs).index()));
  }
  WorkPtr submit(Operation operation);
  // Whether an operation on so many bytes, or on any number of them, goes through windows. All ranks get the same
  // answer. Throws: when the ranks make their windows, in the first such operation, and one of them does not come
  // within the operation's timeout.
  bool is_direct(const char* operation, c10::Device device, std::chrono::milliseconds timeout, size_t bytes);
  bool is_direct(const char* operation, c10::Device device, std::chrono::milliseconds timeout);
  WorkPtr submit(DirectOperation operation);
  // Submits the gathering of an input of each rank in the operation's results, of which a rank may have none.
  WorkPtr gather_directly(DirectOperation operation, const at::Tensor& input, int root = -1);
  void run(const std::shared_ptr<DirectOperation>& operation, const c10::intrusive_ptr<StagedWork>& work);
  void finish(DirectOperation& operation, StagedWork& work);
  // How the operation of this work meets those of the other ranks.
  Meetings meetings_of(const c10::intrusive_ptr<StagedWork>& work, std::chrono::milliseconds timeout);
  // Gives the task to the threads: at once, or when it is the collective's turn.
  WorkPtr begin(const c10::intrusive_ptr<StagedWork>& work, TaskThreads& threads, TaskThreads::Task task);
  WorkPtr receive(const char* name, c10d::OpType type, Tensors& tensors,
                  std::function<WorkPtr(c10d::Backend&, Tensors&)> exchange);
  void start(const std::shared_ptr<Operation>& operation, const c10::intrusive_ptr<StagedWork>& work);
  void finish(Operation& operation, StagedWork& work, c10d::Work& exchange);
  // Calls what ends the work. Callbacks of its future may wait for what they start, so this thread must not be one that
  // starts exchanges.
  void settle(const c10::intrusive_ptr<StagedWork>& work, const TaskThreads::Task& end);
  // The same, on a thread of its own.
  void conclude(const c10::intrusive_ptr<StagedWork>& work, TaskThreads::Task end);
  // The work fails before its exchange has started, or while it runs.
  void give_up(const c10::intrusive_ptr<StagedWork>& work, const std::exception& error);
  static c10::DistBackendError error_of(const OperationName& name, const std::exception& error);
  static void fail(StagedWork& work, const OperationName& name, const std::exception& error);
  // Both throw when an exchange has failed before.
  c10::intrusive_ptr<c10d::Backend> host() { return connected(host_); }
  c10::intrusive_ptr<c10d::Backend> control() { return connected(control_); }
  c10::intrusive_ptr<c10d::Backend> connected(const c10::intrusive_ptr<c10d::Backend>& group);
  // Throws: when the exchange fails. Then this rank leaves the group.
  void wait(c10d::Work& exchange);
  // Does not return once the process ends.
  void rest_if_ended();
  void disconnect(const std::exception& error);
  void forget(const c10::intrusive_ptr<StagedWork>& work);
  std::map<c10::intrusive_ptr<StagedWork>, WorkPtr> pending();
  void abort_receives();
  // Runs a task on a thread of its own, or here if there can be none.
  void run_apart(const TaskThreads::Task& task);
  TransferStreams streams(c10::DeviceIndex device);

  const pid_t process_ = getpid();
  const Create create_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<uint64_t> number_ = 0;  // of operations
  std::atomic<uint64_t> collectives_ = 0;  // those among them
  std::once_flag windows_made_;
  std::unique_ptr<Windows> windows_;
  Turns turns_;
  std::mutex mutex_;  // of all below but the threads
  std::condition_variable changed_;
  bool is_closed_ = false;  // the program can start nothing any more, but callbacks can
  bool has_ended_ = false;
  bool is_leaving_ = false;  // a thread destroys the groups that an exchange has failed in
  c10::intrusive_ptr<c10d::Backend> host_;  // null once an exchange has failed, for the reason below
  c10::intrusive_ptr<c10d::Backend> control_;  // null then, and where ranks share no memory
  std::string failure_;
  std::map<c10::DeviceIndex, TransferStreams> streams_;
  std::map<std::thread::id, std::vector<c10::intrusive_ptr<StagedWork>>> coalesced_;  // by the threads that collect
  std::map<c10::intrusive_ptr<StagedWork>, WorkPtr> in_flight_;  // the second is null until the exchange has started
  TaskThreads starter_{"or_dist_start", 1};
  // A send or receive may have to wait for a later one, and a callback for what it starts, so each exchange has a
  // thread that waits for it and then runs the callbacks.
  TaskThreads waiters_{"or_dist_wait", SIZE_MAX};
  TaskThreads direct_{"or_dist_direct", 1};
};

// At the end of the process: aborts what is in flight, and ends the threads. A process group that still exchanges then
// is never destroyed, because its destructor would wait for the other processes. Nor is one in a forked child.
OPENREG_EXPORT void end_staged_backends();

}  // namespace openreg
