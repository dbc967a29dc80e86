// Collectives through device memory that all ranks can access. Nothing is copied to the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "distributed/reduction.h"
#include "distributed/windows.h"

namespace openreg {

// LITERALINCLUDE START: distributed-direct-class
// How ranks wait for each other. Both functions throw when a rank does not come.
struct Meetings {
  std::function<void()> meet;  // returns when all ranks have called it
  // Returns the numbers of all ranks, in rows; each gives as many.
  std::function<at::Tensor(const std::vector<int64_t>&)> tell;
};

// One operation. All tensors are dense and have one dimension; a reduction's are as Reduction::view makes them. A list
// has a tensor for each rank, in their order, and no two of them need to be in one memory. Kernels and copies are
// queued on the current streams, which are those of the windows.
class DirectExchange {
 public:
  using Tensors = std::vector<at::Tensor>;

  DirectExchange(Windows& windows, int rank, int size, Meetings meetings)
      : windows_(windows), rank_(rank), size_(size), meetings_(std::move(meetings)) {}

  // All functions throw, on all ranks, if these do not call the same operation on as many elements of one dtype, with
  // the same root and the same reduction.

  void all_reduce(const at::Tensor& tensor, const Reduction& reduction);
  // The output is the root's; the others' is not used.
  void reduce(const at::Tensor& output, const at::Tensor& input, int root, const Reduction& reduction);
  void reduce_scatter(const at::Tensor& output, const Tensors& inputs, const Reduction& reduction);
  // A rank without outputs only gives its input. The root is -1 if all have outputs.
  void gather(const Tensors& outputs, const at::Tensor& input, int root);
  // The root alone has inputs.
  void scatter(const at::Tensor& output, const Tensors& inputs, int root);
  void broadcast(const at::Tensor& tensor, int root);
  // Bytes. The tensors may have any sizes.
  // Throws: on all ranks, unless each tensor has as many bytes where it goes to as where it comes from.
  void all_to_all(const Tensors& outputs, const Tensors& inputs);

 private:
  // What a rank tells the others in the first meeting of an operation.
  using Call = std::vector<int64_t>;
  enum class Algorithm : int64_t { kAllReduce, kReduce, kReduceScatter, kGather, kScatter, kBroadcast, kAllToAll };
  void begin(Algorithm algorithm, const at::Tensor& tensor, int64_t root = -1, int64_t reduction = -1);
  at::Tensor agree();
  static std::string described(const at::Tensor& call);
  void finish_copies();
  // Returns when what all ranks have written to their windows can be read.
  void publish();
  // The same, and the ranks tell each other how many bytes they send and expect, which they know of their own tensors
  // alone. Returns: the largest number of all. Throws: on all ranks, if two of them do not agree.
  int64_t publish(const Tensors& outputs, const Tensors& inputs);
  // The ranks' contributions to `part`, which this rank reduces: its own, and those in the windows.
  void combine(const at::Tensor& part, const at::Tensor& own, int64_t offset, const Reduction& reduction);

  Windows& windows_;
  const int rank_;
  const int size_;
  const Meetings meetings_;
  Call call_;  // empty once the ranks have compared it
};
// LITERALINCLUDE END: distributed-direct-class

}  // namespace openreg
