// Copies between device tensors and pinned host memory, on streams of their own. The constructor and send() run on the
// thread that calls the collective, wait_until_sent() and copy_back() on threads of the process group.
#include "distributed/staging.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "runtime/allocator.h"
#include "runtime/stream.h"

namespace openreg {

at::Tensor pinned(int64_t numel, at::ScalarType dtype) {
  // Threads that are in no inference mode write to it, also if the caller is in one.
  const c10::InferenceMode normal(false);
  return at::empty({numel}, at::TensorOptions(dtype).device(at::kCPU).pinned_memory(true));
}

at::Tensor flattened(const at::Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  // Of lists of lists, PyTorch has not resolved the conjugates and negatives that views have yet to compute.
  const at::Tensor flat = tensor.reshape(-1).contiguous().resolve_conj().resolve_neg();
  // PyTorch calls one element contiguous whatever its stride, but it cannot be seen as bytes with another one than 1.
  return flat.numel() > 1 || flat.stride(0) == 1 ? flat : flat.as_strided({flat.numel()}, {1});
}

std::vector<at::Tensor> flattened(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(flattened(tensor));
  return flat;
}

at::Tensor bytes(const at::Tensor& flat) {
  const c10::InferenceMode normal(false);  // as in pinned(): in inference mode, the view would belong to it
  return flat.view(at::kByte);
}

std::vector<at::Tensor> bytes(const std::vector<at::Tensor>& flat) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : flat) all.push_back(bytes(tensor));
  return all;
}

std::vector<at::Tensor> apart(const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& from) {
  std::vector<at::Tensor> into = flattened(results);
  for (at::Tensor& memory : into) {
    const auto shares = [&](const at::Tensor& tensor) { return tensor.is_alias_of(memory); };
    if (std::any_of(from.begin(), from.end(), shares)) memory = at::empty_like(memory);
  }
  return into;
}

bool has_memory_of_others(const std::vector<at::Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    const c10::DataPtr& data = tensor.storage().data_ptr();
    return data.get() != nullptr && data.get_deleter() != allocator().raw_deleter();
  });
}

// LITERALINCLUDE START: distributed-staging-send
Staging::Staging(const TransferStreams& streams)
    : streams_(streams), ready_(c10::kPrivateUse1), sent_(c10::kPrivateUse1) {
  const c10::Stream current = current_stream(streams_.to_host.device_index());
  ready_.record(current);
  ready_.block(streams_.to_host);
}

void Staging::send(const at::Tensor& tensor, const at::Tensor& host) {
  const c10::StreamGuard guard(streams_.to_host);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  host.copy_(tensor.reshape(-1), /*non_blocking=*/true);
  // The caller may free the tensor at once. Its memory must not be reused before the copy has read it: the pool waits
  // for the stream. Another owner knows of no stream, but only of tensors.
  allocator().recordStream(tensor.storage().data_ptr(), streams_.to_host);
  sent_tensors_.push_back(tensor);
}

void Staging::close() { sent_.record(streams_.to_host); }

void Staging::wait_until_sent() const { sent_.synchronize(); }
// LITERALINCLUDE END: distributed-staging-send

at::Tensor Staging::send(const at::Tensor& tensor) {
  at::Tensor host = pinned(tensor.numel(), tensor.scalar_type());
  send(tensor, host);
  return host;
}

void Staging::receive(const at::Tensor& tensor, const at::Tensor& host) { results_.emplace_back(tensor, host); }

at::Tensor Staging::receive(const at::Tensor& tensor) {
  at::Tensor host = pinned(tensor.numel(), tensor.scalar_type());
  receive(tensor, host);
  return host;
}

at::Tensor Staging::exchange(const at::Tensor& tensor) {
  at::Tensor host = send(tensor);
  receive(tensor, host);
  return host;
}

// LITERALINCLUDE START: distributed-staging-back
void Staging::copy_back() {
  const c10::StreamGuard guard(streams_.to_device);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  // Kernels that the caller queued before the operation may still read the old values.
  ready_.block(streams_.to_device);
  for (const auto& [tensor, host] : results_) {
    tensor.copy_(host.view(tensor.sizes()), /*non_blocking=*/true);
    allocator().recordStream(tensor.storage().data_ptr(), streams_.to_device);
  }
  results_.clear();
}
// LITERALINCLUDE END: distributed-staging-back

}  // namespace openreg
