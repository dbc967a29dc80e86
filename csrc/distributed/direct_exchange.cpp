// The algorithms of DirectExchange. Tensors larger than a window take several rounds. Called on the thread of the
// process group that runs them one after another.
//
// Why no rank overwrites what another still reads: a rank writes the half of its window that it wrote two rounds ago.
// Since then, it has met the others once more; each of them had finished its reads of that half before, because it
// waits for its streams before it meets.
#include "distributed/direct_exchange.h"

#include <algorithm>

namespace openreg {
namespace {

// LITERALINCLUDE START: distributed-direct-parts
// The tensor in pieces, each of at most as many elements.
std::vector<at::Tensor> pieces(const at::Tensor& tensor, int64_t elements) {
  std::vector<at::Tensor> all;
  for (int64_t start = 0; start < tensor.numel(); start += elements) {
    all.push_back(tensor.narrow(0, start, std::min(elements, tensor.numel() - start)));
  }
  return all;
}

int64_t elements_of_window(const at::Tensor& tensor) {
  return Windows::kBytes / static_cast<int64_t>(tensor.element_size());
}
// LITERALINCLUDE END: distributed-direct-parts

}  // namespace

// LITERALINCLUDE START: distributed-direct-publish
void DirectExchange::publish() {
  windows_.streams().front().synchronize();  // which waits for the others: a copy between devices orders both
  meet_();
}
// LITERALINCLUDE END: distributed-direct-publish

// LITERALINCLUDE START: distributed-direct-reduce
// In the order of the ranks, so that sums do not depend on which rank adds them up.
void DirectExchange::reduce(const at::Tensor& part, const at::Tensor& own, int64_t offset, const Reduction& reduction) {
  const auto contribution = [&](int rank) {
    const at::Tensor there =
        rank == rank_ ? own : windows_.of(rank, offset + own.numel(), own.scalar_type()).narrow(0, offset, own.numel());
    return there.to(part.device());  // the tensor itself if it is there
  };
  reduction.combine(part, contribution(0), contribution(1));
  for (int rank = 2; rank < size_; ++rank) reduction.combine(part, part, contribution(rank));
  reduction.finish(part);
}

// Each rank reduces one part, and all collect the parts.
void DirectExchange::all_reduce(const at::Tensor& tensor, const Reduction& reduction) {
  for (const at::Tensor& piece : pieces(tensor, elements_of_window(tensor))) {
    const int64_t length = (piece.numel() + size_ - 1) / size_;
    const auto part_of = [&](const at::Tensor& whole, int rank) {
      const int64_t start = std::min(rank * length, piece.numel());
      return whole.narrow(0, start, std::min(length, piece.numel() - start));
    };
    const auto window = [&](int rank) { return windows_.of(rank, piece.numel(), piece.scalar_type()); };
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) part_of(window(rank_), rank).copy_(part_of(piece, rank));
    }
    publish();
    reduce(part_of(window(rank_), rank_), part_of(piece, rank_), std::min(rank_ * length, piece.numel()), reduction);
    publish();
    for (int rank = 0; rank < size_; ++rank) part_of(piece, rank).copy_(part_of(window(rank), rank));
    windows_.turn();
  }
}
// LITERALINCLUDE END: distributed-direct-reduce

void DirectExchange::reduce_scatter(const at::Tensor& output, const at::Tensor& input, const Reduction& reduction) {
  const at::Tensor parts = input.view({size_, output.numel()});
  int64_t start = 0;
  for (const at::Tensor& piece : pieces(output, elements_of_window(output) / size_)) {
    const int64_t length = piece.numel();
    const at::Tensor window = windows_.of(rank_, size_ * length, piece.scalar_type()).view({size_, length});
    window.copy_(parts.narrow(1, start, length));
    publish();
    reduce(piece, parts[rank_].narrow(0, start, length), rank_ * length, reduction);
    windows_.turn();
    start += length;
  }
}

// LITERALINCLUDE START: distributed-direct-gather
void DirectExchange::all_gather(const at::Tensor& output, const at::Tensor& input) {
  const at::Tensor parts = output.view({size_, input.numel()});
  int64_t start = 0;
  for (const at::Tensor& piece : pieces(input, elements_of_window(input))) {
    const auto window = [&](int rank) { return windows_.of(rank, piece.numel(), piece.scalar_type()); };
    window(rank_).copy_(piece);
    publish();
    for (int rank = 0; rank < size_; ++rank) {
      parts[rank].narrow(0, start, piece.numel()).copy_(rank == rank_ ? piece : window(rank));
    }
    windows_.turn();
    start += piece.numel();
  }
}

void DirectExchange::broadcast(const at::Tensor& tensor, int root) {
  for (const at::Tensor& piece : pieces(tensor, elements_of_window(tensor))) {
    const at::Tensor window = windows_.of(root, piece.numel(), piece.scalar_type());
    if (rank_ == root) window.copy_(piece);
    publish();
    if (rank_ != root) piece.copy_(window);
    windows_.turn();
  }
}
// LITERALINCLUDE END: distributed-direct-gather

}  // namespace openreg
