// The life of an operation that goes through windows: one thread runs them one after another, each from its first copy
// to its last. is_direct() and submit() are called on any thread, without the GIL.
#include <ATen/core/LegacyTypeDispatch.h>
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

bool StagedBackend::is_direct(const char* operation, c10::Device device, size_t bytes) {
  if (bytes < kSmallestDirect) return false;
  c10::intrusive_ptr<c10d::Backend> group;
  {
    const std::lock_guard lock(mutex_);
    group = control_;
  }
  if (group == nullptr) return false;
  try {
    std::call_once(windows_made_, [&] { windows_ = Windows::open(*group, device); });
  } catch (const std::exception& error) {
    disconnect(error);
    throw error_of(next(operation), error);
  }
  return windows_ != nullptr;
}
// LITERALINCLUDE END: distributed-direct-choice

// LITERALINCLUDE START: distributed-direct-submit
WorkPtr StagedBackend::submit(DirectOperation operation) {
  const c10::Device device = operation.result.device();
  operation.ready.record(current_stream(device.index()));
  auto work = c10::make_intrusive<StagedWork>(operation.name, operation.type, device, Tensors{operation.result});
  auto shared = std::make_shared<DirectOperation>(std::move(operation));
  return begin(work, direct_, [this, shared, work] { run(*shared, work); });
}

void StagedBackend::run(DirectOperation& operation, const c10::intrusive_ptr<StagedWork>& work) {
  const auto& [name, type, result, from, into, exchange, ready] = operation;
  try {
    const c10::MultiStreamGuard guard(windows_->streams());
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const c10::Stream stream = current_stream(result.device().index());
    ready.block(stream);
    DirectExchange direct(*windows_, getRank(), getSize(), [&] { meet(work); });
    exchange(direct);
    if (!into.is_alias_of(result)) result.copy_(into.view(result.sizes()));
    for (const at::Tensor* tensor : {&result, &from, &into}) {
      allocator().recordStream(tensor->storage().data_ptr(), stream);
    }
    work->complete(-1);
  } catch (const std::exception& error) {
    fail(*work, name, error);
    // The others wait at the operation's next meeting. They would take one of a later operation for it.
    disconnect(error);
  }
  forget(work);
}

void StagedBackend::meet(const c10::intrusive_ptr<StagedWork>& work) {
  const WorkPtr meeting = control()->barrier({});
  {
    const std::lock_guard lock(mutex_);
    in_flight_[work] = meeting;
  }
  wait(*meeting);
}
// LITERALINCLUDE END: distributed-direct-submit

}  // namespace openreg
