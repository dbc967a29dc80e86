// The way of one operation's tensors through pinned host memory: to the host before the exchange, and back after it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <utility>
#include <vector>

namespace openreg {

// LITERALINCLUDE START: distributed-transfers
// The two streams of a process group on a device. With one, the result of an exchange would queue behind the inputs of
// the next, which may wait for a kernel.
struct TransferStreams {
  c10::Stream to_host;
  c10::Stream to_device;
};
constexpr int kHighPriority = -1;  // A process that waits for a copy keeps others waiting.

// The host tensors of one operation. They are pinned, contiguous and flat, whatever the strides on the device.
class Staging {
 public:
  // Everything here happens after the work queued on the caller's current stream so far.
  explicit Staging(const TransferStreams& streams);

  // Queues a copy to the host.
  at::Tensor send(const at::Tensor& tensor);
  // The same into memory of the caller, which has as many elements.
  void send(const at::Tensor& tensor, const at::Tensor& host);
  // Host memory that copy_back() copies to the tensor.
  at::Tensor receive(const at::Tensor& tensor);
  void receive(const at::Tensor& tensor, const at::Tensor& host);
  // Both, with the same memory.
  at::Tensor exchange(const at::Tensor& tensor);

  // After the last send: makes wait_until_sent() possible.
  void close();
  // The host waits until it can read what was sent.
  // Throws: when the device has failed.
  void wait_until_sent() const;
  // Lets go of the tensors that were sent. Requires: wait_until_sent() has returned.
  void forget_sent() { sent_tensors_.clear(); }
  // Queues the copies to the device. Work that the caller orders behind `streams().to_device` sees the results.
  void copy_back();

  const TransferStreams& streams() const { return streams_; }

 private:
  TransferStreams streams_;
  c10::Event ready_;
  c10::Event sent_;
  std::vector<at::Tensor> sent_tensors_;
  std::vector<std::pair<at::Tensor, at::Tensor>> results_;  // on the device, on the host
};
// LITERALINCLUDE END: distributed-transfers

// The elements one after another, in one dimension: the tensor's own memory if it has no gaps, else a copy that the
// current stream makes.
at::Tensor flattened(const at::Tensor& tensor);

std::vector<at::Tensor> flattened(const std::vector<at::Tensor>& tensors);

// Flat memory for the results of an exchange that reads `from` meanwhile: a result's own, unless it has gaps or shares
// memory with one of them. Then it is other memory, for a copy in the end.
std::vector<at::Tensor> apart(const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& from);

// Flat memory as bytes.
at::Tensor bytes(const at::Tensor& flat);
std::vector<at::Tensor> bytes(const std::vector<at::Tensor>& flat);

// Whether recordStream does nothing for the memory of one of the tensors: the pool has not allocated it, but another
// library, or another process. Whoever copies must keep such a tensor until the copy has passed.
bool has_memory_of_others(const std::vector<at::Tensor>& tensors);

// Pinned host memory for `numel` elements.
at::Tensor pinned(int64_t numel, at::ScalarType dtype);

}  // namespace openreg
