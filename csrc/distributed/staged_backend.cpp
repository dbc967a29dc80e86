// The life of an operation: staged on the thread that calls it, started in order by one thread, finished by another.
// How its group ends is in staged_ends.cpp. Called on any thread, without the GIL.
#include "distributed/staged_backend.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/stream.h"

namespace openreg {

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
                                     c10::ArrayRef<at::Tensor> inputs) const {
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
  expect_possible(operation, *device);
  for (const at::Tensor& result : results) {
    TORCH_CHECK_VALUE(at::has_internal_overlap(result) != at::MemOverlap::Yes, operation,
                      ": elements of a result share memory, as those of an expanded tensor or of a sum's gradient do, "
                      "so it cannot be written; pass tensor.contiguous(), and use that one");
  }
  return *device;
}
// LITERALINCLUDE END: distributed-checked-tensors

// Before anything is recorded or counted, so that both the capture and the group go on.
void StagedBackend::expect_possible(const char* operation, c10::Device device) const {
  TORCH_CHECK(!is_copy(), "openreg: ", operation,
              " in a process that was forked from one of the group, and is no member of it: start processes with "
              "spawn or forkserver, and let each create the group");
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
  TORCH_CHECK(!work->is_collective() || !turns_.is_in_callback_of_transfer(), work->name().str(),
              " cannot start in a callback of a send or receive of its process group: the ranks end their transfers at "
              "different moments, and would match different collectives. Wait for the transfer, and start it then");
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!is_closed_ || turns_.is_in_callback(), work->name().str(),
                " cannot start: the process group was shut down; create another");
    in_flight_.emplace(work, nullptr);
    const auto collected = coalesced_.find(std::this_thread::get_id());
    if (collected != coalesced_.end()) collected->second.push_back(work);
  }
  auto start = [this, work, &threads, task = std::move(task)] {
    try {
      threads.run(task);
    } catch (const std::exception& error) {  // NOT PROVEN: the machine has no more threads
      give_up(work, error);                  // NOT PROVEN: as above
    }
  };
  if (work->is_collective()) {
    turns_.add(work->turn(), std::move(start));
  } else {
    start();
  }
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
    waiters_.run([this, operation, work, exchange] { settle(work, [&] { finish(*operation, *work, *exchange); }); });
  } catch (const std::exception& error) {
    give_up(work, error);
  }
}

// The others have started the collective, or wait at its next meeting. They would take this rank's next one for it.
void StagedBackend::give_up(const c10::intrusive_ptr<StagedWork>& work, const std::exception& error) {
  if (work->is_collective()) disconnect(error);
  conclude(work, [work, failure = error_of(work->name(), error)] { work->fail(std::make_exception_ptr(failure)); });
}

void StagedBackend::conclude(const c10::intrusive_ptr<StagedWork>& work, TaskThreads::Task end) {
  run_apart([this, work, end = std::move(end)] {
    rest_if_ended();
    settle(work, end);
  });
}

void StagedBackend::settle(const c10::intrusive_ptr<StagedWork>& work, const TaskThreads::Task& end) {
  if (work->is_collective()) {
    turns_.conclude(work->turn(), end);
  } else {
    turns_.conclude_transfer(end);
  }
  forget(work);
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
    const bool is_receive = operation.type == c10d::OpType::RECV || operation.type == c10d::OpType::RECVANYSOURCE;
    work.complete(is_receive ? exchange.sourceRank() : -1);
    if (has_memory_of_others(operation.results)) work.wait_for_copies();
  } catch (const std::exception& error) {
    fail(work, operation.name, error);
  }
}
// LITERALINCLUDE END: distributed-submit

void StagedBackend::forget(const c10::intrusive_ptr<StagedWork>& work) {
  {
    const std::lock_guard lock(mutex_);
    in_flight_.erase(work);
  }
  changed_.notify_all();
}

// A group that has not ended is that of a block which has raised: PyTorch does not end it.
void StagedBackend::startCoalescing() {
  const std::lock_guard lock(mutex_);
  coalesced_[std::this_thread::get_id()].clear();
}

WorkPtr StagedBackend::endCoalescing() {
  std::vector<c10::intrusive_ptr<StagedWork>> works;
  {
    const std::lock_guard lock(mutex_);
    auto collected = coalesced_.extract(std::this_thread::get_id());
    TORCH_CHECK(!collected.empty(), "endCoalescing without startCoalescing");
    works = std::move(collected.mapped());
  }
  return c10::make_intrusive<CoalescedWork>(getRank(), std::move(works));
}

// LITERALINCLUDE START: distributed-split
// Through this group's own store, under the names of the ranks: the store that PyTorch passes has a prefix of its own,
// which depends on the groups that a rank knows, and a rank that an earlier call left out knows fewer.
c10::intrusive_ptr<c10d::Backend> StagedBackend::split(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                                       const std::vector<int>& ranks,
                                                       const c10::intrusive_ptr<Options>& options) {
  const auto place = std::find(ranks.begin(), ranks.end(), getRank());
  if (place == ranks.end()) return nullptr;
  auto own = c10::make_intrusive<c10d::PrefixStore>(c10::str("ranks ", c10::Join(",", ranks)), store_);
  return create_(own, static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()), options->timeout);
}
// LITERALINCLUDE END: distributed-split

}  // namespace openreg
