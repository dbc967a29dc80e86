// The life of an operation that goes through windows: one thread runs them one after another, each from its first copy
// to its last. is_direct() and submit() are called on any thread, without the GIL.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <utility>

#include "distributed/staged_backend.h"
#include "runtime/allocator.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: distributed-direct-choice
// Below this, the ranks' meetings cost more than the copies that they save.
constexpr size_t kSmallestDirect = size_t{256} << 10;

}  // namespace

bool StagedBackend::is_direct(const char* operation, c10::Device device, std::chrono::milliseconds timeout,
                              size_t bytes) {
  return bytes >= kSmallestDirect && is_direct(operation, device, timeout);
}

bool StagedBackend::is_direct(const char* operation, c10::Device device, std::chrono::milliseconds timeout) {
  c10::intrusive_ptr<c10d::Backend> group;
  {
    const std::lock_guard lock(mutex_);
    group = control_;
  }
  if (group == nullptr) return false;
  try {
    std::call_once(windows_made_, [&] { windows_ = Windows::open(*group, device, timeout); });
  } catch (const std::exception& error) {
    disconnect(error);
    throw error_of(next(operation), error);
  }
  return windows_ != nullptr;
}
// LITERALINCLUDE END: distributed-direct-choice

// LITERALINCLUDE START: distributed-direct-submit
WorkPtr StagedBackend::submit(DirectOperation operation) {
  operation.ready.record(current_stream(operation.device.index()));
  auto work = c10::make_intrusive<StagedWork>(operation.name, operation.type, operation.device, operation.results);
  auto shared = std::make_shared<DirectOperation>(std::move(operation));
  return begin(work, direct_, [this, shared, work] { run(shared, work); });
}

void StagedBackend::run(const std::shared_ptr<DirectOperation>& operation, const c10::intrusive_ptr<StagedWork>& work) {
  auto& [name, type, device, timeout, results, from, into, exchange, ready, done] = *operation;
  try {
    windows_->use(device);
    const c10::MultiStreamGuard guard(windows_->streams());
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const c10::Stream stream = current_stream(device.index());
    ready.block(stream);
    DirectExchange direct(*windows_, getRank(), getSize(), meetings_of(work, timeout));
    // First: what has been queued uses the memory also if the exchange fails.
    for (const Tensors* tensors : {&results, &from, &into}) {
      for (const at::Tensor& tensor : *tensors) allocator().recordStream(tensor.storage().data_ptr(), stream);
    }
    exchange(direct);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!into[i].is_alias_of(results[i])) results[i].copy_(into[i].view(results[i].sizes()));
    }
    done.record(stream);
    conclude(work, [this, operation, work] { finish(*operation, *work); });
  } catch (const std::exception& error) {
    give_up(work, error);
  }
}

// The thread that runs the exchanges has gone on, so the streams of the windows may have work of the next one by now.
void StagedBackend::finish(DirectOperation& operation, StagedWork& work) {
  try {
    const c10::Stream stream = streams(operation.device.index()).to_device;
    operation.done.block(stream);
    const c10::StreamGuard guard(stream);
    work.complete(-1);
    for (const Tensors* tensors : {&operation.results, &operation.from, &operation.into}) {
      if (has_memory_of_others(*tensors)) operation.done.synchronize();
    }
  } catch (const std::exception& error) {
    fail(work, operation.name, error);  // NOT PROVEN: the device has failed after the exchange
  }
}

Meetings StagedBackend::meetings_of(const c10::intrusive_ptr<StagedWork>& work, std::chrono::milliseconds timeout) {
  const auto wait_for = [this, work](const WorkPtr& meeting) {
    {
      const std::lock_guard lock(mutex_);
      in_flight_[work] = meeting;
    }
    wait(*meeting);
  };
  return {[this, wait_for, timeout] {
            c10d::BarrierOptions options;
            options.timeout = timeout;
            wait_for(control()->barrier(options));
          },
          [this, wait_for, timeout](const std::vector<int64_t>& numbers) {
            at::Tensor own = at::tensor(numbers, at::kLong);
            at::Tensor all = at::empty({getSize() * own.numel()}, at::kLong);
            wait_for(control()->_allgather_base(all, own, {timeout}));
            return all.view({getSize(), own.numel()});
          }};
}
// LITERALINCLUDE END: distributed-direct-submit

}  // namespace openreg
