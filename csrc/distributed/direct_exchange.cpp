// The algorithms of DirectExchange. Tensors larger than a window take several rounds. Called on the thread of the
// process group that runs them one after another.
//
// Why no rank overwrites what another still reads: a rank writes the half of its window that it wrote two rounds ago.
// Since then, it has met the others once more; each of them had finished its reads of that half before, because it
// waits for its streams before it meets.
#include "distributed/direct_exchange.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <utility>

namespace openreg {
namespace {

constexpr int64_t kCommon = 5;  // of the numbers of a call, those that must be the same on all ranks

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
// A copy between two devices is ordered on the streams of both, and neither need be that of this rank's window.
void DirectExchange::finish_copies() {
  for (const c10::Stream& stream : windows_.streams()) stream.synchronize();
}

void DirectExchange::publish() {
  finish_copies();
  if (call_.empty()) return meetings_.meet();
  static_cast<void>(agree());
}

// All calls are equally long, so that those of different operations can be compared as well.
void DirectExchange::begin(Algorithm algorithm, const at::Tensor& tensor, int64_t root, int64_t reduction) {
  call_ = {static_cast<int64_t>(algorithm), static_cast<int64_t>(tensor.scalar_type()), tensor.numel(), root,
           reduction};
  call_.resize(kCommon + 2 * static_cast<size_t>(size_));
}

// Ranks that meet in different operations would read what none of them has written for the other.
at::Tensor DirectExchange::agree() {
  const at::Tensor told = meetings_.tell(std::exchange(call_, {}));
  for (int rank = 1; rank < size_; ++rank) {
    const auto common = [&told](int of) { return told[of].narrow(0, 0, kCommon); };
    if (!common(rank).equal(common(0))) {
      C10_THROW_ERROR(ValueError, c10::str("the ranks call different operations: ", described(told[0]), " on rank 0, ",
                                           described(told[rank]), " on rank ", rank));
    }
  }
  return told.narrow(1, kCommon, 2 * size_);
}

std::string DirectExchange::described(const at::Tensor& call) {
  static constexpr std::array kNames{"all_reduce", "reduce",    "reduce_scatter", "gather",
                                     "scatter",    "broadcast", "all_to_all"};
  const auto* const numbers = call.const_data_ptr<int64_t>();
  std::string text = c10::str(kNames[static_cast<size_t>(numbers[0])], " of ", numbers[2], " elements of ",
                              static_cast<at::ScalarType>(numbers[1]));
  if (numbers[3] >= 0) text += c10::str(" with the root ", numbers[3]);
  if (numbers[4] >= 0) text += c10::str(" by ", Reduction::name_of(numbers[4]));
  return text;
}
// LITERALINCLUDE END: distributed-direct-publish

// LITERALINCLUDE START: distributed-direct-reduce
// In the order of the ranks, so that sums do not depend on which rank adds them up.
void DirectExchange::combine(const at::Tensor& part, const at::Tensor& own, int64_t offset,
                             const Reduction& reduction) {
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
  begin(Algorithm::kAllReduce, tensor, -1, reduction.number());
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
    combine(part_of(window(rank_), rank_), part_of(piece, rank_), std::min(rank_ * length, piece.numel()), reduction);
    publish();
    for (int rank = 0; rank < size_; ++rank) part_of(piece, rank).copy_(part_of(window(rank), rank));
    windows_.turn();
  }
}
// LITERALINCLUDE END: distributed-direct-reduce

// LITERALINCLUDE START: distributed-direct-to-one
void DirectExchange::reduce(const at::Tensor& output, const at::Tensor& input, int root, const Reduction& reduction) {
  begin(Algorithm::kReduce, input, root, reduction.number());
  int64_t start = 0;
  for (const at::Tensor& piece : pieces(input, elements_of_window(input))) {
    const at::Tensor window = windows_.of(rank_, piece.numel(), piece.scalar_type());
    if (rank_ != root) window.copy_(piece);
    publish();
    if (rank_ == root) {
      combine(window, piece, 0, reduction);
      output.narrow(0, start, piece.numel()).copy_(window);
    }
    windows_.turn();
    start += piece.numel();
  }
}

void DirectExchange::reduce_scatter(const at::Tensor& output, const Tensors& inputs, const Reduction& reduction) {
  begin(Algorithm::kReduceScatter, output, -1, reduction.number());
  int64_t start = 0;
  for (const at::Tensor& piece : pieces(output, elements_of_window(output) / size_)) {
    const int64_t length = piece.numel();
    const at::Tensor window = windows_.of(rank_, size_ * length, piece.scalar_type());
    const auto part = [&](int rank) { return inputs[rank].narrow(0, start, length); };
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) window.narrow(0, rank * length, length).copy_(part(rank));
    }
    publish();
    combine(piece, part(rank_), rank_ * length, reduction);
    windows_.turn();
    start += length;
  }
}

// LITERALINCLUDE END: distributed-direct-to-one

// LITERALINCLUDE START: distributed-direct-gather
void DirectExchange::gather(const Tensors& outputs, const at::Tensor& input, int root) {
  begin(Algorithm::kGather, input, root);
  int64_t start = 0;
  for (const at::Tensor& piece : pieces(input, elements_of_window(input))) {
    const auto window = [&](int rank) { return windows_.of(rank, piece.numel(), piece.scalar_type()); };
    window(rank_).copy_(piece);
    publish();
    for (int rank = 0; rank < static_cast<int>(outputs.size()); ++rank) {
      const at::Tensor output = outputs[rank].narrow(0, start, piece.numel());
      if (rank != rank_) {
        output.copy_(window(rank));
      } else if (output.const_data_ptr() != piece.const_data_ptr()) {  // it is the same memory in FSDP
        output.copy_(piece);
      }
    }
    windows_.turn();
    start += piece.numel();
  }
}

void DirectExchange::scatter(const at::Tensor& output, const Tensors& inputs, int root) {
  begin(Algorithm::kScatter, output, root);
  int64_t start = 0;
  for (const at::Tensor& piece : pieces(output, elements_of_window(output) / size_)) {
    const int64_t length = piece.numel();
    const at::Tensor window = windows_.of(root, size_ * length, piece.scalar_type());
    const auto part = [&](int rank) { return window.narrow(0, rank * length, length); };
    for (int rank = 0; rank < static_cast<int>(inputs.size()); ++rank) {
      if (rank != rank_) part(rank).copy_(inputs[rank].narrow(0, start, length));
    }
    publish();
    piece.copy_(rank_ == root ? inputs[rank_].narrow(0, start, length) : part(rank_));
    windows_.turn();
    start += length;
  }
}

void DirectExchange::broadcast(const at::Tensor& tensor, int root) {
  begin(Algorithm::kBroadcast, tensor, root);
  for (const at::Tensor& piece : pieces(tensor, elements_of_window(tensor))) {
    const at::Tensor window = windows_.of(root, piece.numel(), piece.scalar_type());
    if (rank_ == root) window.copy_(piece);
    publish();
    if (rank_ != root) piece.copy_(window);
    windows_.turn();
  }
}
// LITERALINCLUDE END: distributed-direct-gather

// LITERALINCLUDE START: distributed-direct-all-to-all
int64_t DirectExchange::publish(const Tensors& outputs, const Tensors& inputs) {
  auto place = call_.begin() + kCommon;
  for (const Tensors* list : {&inputs, &outputs}) {
    for (const at::Tensor& tensor : *list) *place++ = tensor.numel();
  }
  finish_copies();
  const at::Tensor told = agree();
  const at::Tensor sent = told.narrow(1, 0, size_);
  const at::Tensor expected = told.narrow(1, size_, size_).t();
  if (!sent.equal(expected)) {
    const at::Tensor first = sent.ne(expected).nonzero()[0];
    const auto from = first[0].item<int64_t>();
    const auto to = first[1].item<int64_t>();
    const auto bytes = sent[from][to].item<int64_t>();
    const auto wanted = expected[from][to].item<int64_t>();
    C10_THROW_ERROR(ValueError,
                    c10::str("rank ", from, " sends ", bytes, " bytes to rank ", to, ", which expects ", wanted));
  }
  return sent.max().item<int64_t>();
}

void DirectExchange::all_to_all(const Tensors& outputs, const Tensors& inputs) {
  begin(Algorithm::kAllToAll, inputs[0].narrow(0, 0, 0));  // of bytes; their numbers are compared below
  const int64_t slot = Windows::kBytes / size_;
  int64_t rounds = 1;
  for (int64_t round = 0; round < rounds; ++round) {
    const auto piece = [&](const at::Tensor& whole) {
      const int64_t start = std::min(round * slot, whole.numel());
      return whole.narrow(0, start, std::min(slot, whole.numel() - start));
    };
    const auto in_window = [&](int from, int to, int64_t bytes) {
      return windows_.of(from, Windows::kBytes, at::kByte).narrow(0, to * slot, bytes);
    };
    for (int rank = 0; rank < size_; ++rank) {
      const at::Tensor part = piece(inputs[rank]);
      if (rank != rank_) in_window(rank_, rank, part.numel()).copy_(part);
    }
    if (round == 0) {
      rounds = (publish(outputs, inputs) + slot - 1) / slot;
    } else {
      publish();
    }
    for (int rank = 0; rank < size_; ++rank) {
      const at::Tensor part = piece(outputs[rank]);
      part.copy_(rank == rank_ ? piece(inputs[rank]) : in_window(rank, rank_, part.numel()));
    }
    windows_.turn();
  }
}
// LITERALINCLUDE END: distributed-direct-all-to-all

}  // namespace openreg
