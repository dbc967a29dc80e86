// send and recv between two processes, with which pipelines pass activations on. Called on any thread, without the GIL.
#include <c10/util/Exception.h>

#include <utility>

#include "distributed/staged_backend.h"

namespace openreg {
namespace {

// The host library would wait for the address of a rank that does not exist, and all later operations with it.
void check_other_rank(const char* operation, int other, const StagedBackend& group) {
  TORCH_CHECK_VALUE(other >= 0 && other < group.getSize() && other != group.getRank(), operation,
                    ": expected a rank from 0 to ", group.getSize() - 1, " other than the own ", group.getRank(),
                    ", but got ", other);
}

}  // namespace

using c10d::OpType;

// LITERALINCLUDE START: distributed-send
WorkPtr StagedBackend::send(Tensors& tensors, int destination, int tag) {
  static constexpr auto kName = "send";
  check_other_rank(kName, destination, *this);
  TORCH_CHECK_VALUE(tensors.size() == 1, kName, ": expected one tensor, but got ", tensors.size());
  Staging staging = stage(kName, {}, tensors);
  Tensors host{staging.send(tensors[0]).view(at::kByte)};
  return submit({next_transfer(kName), OpType::SEND, std::move(staging), tensors,
                 [=](Backend& inner) mutable { return inner.send(host, destination, tag); }});
}

WorkPtr StagedBackend::receive(const char* name, OpType type, Tensors& tensors,
                               std::function<WorkPtr(Backend&, Tensors&)> exchange) {
  TORCH_CHECK_VALUE(tensors.size() == 1, name, ": expected one tensor, but got ", tensors.size());
  Staging staging = stage(name, tensors);
  Tensors host{staging.receive(tensors[0]).view(at::kByte)};
  return submit({next_transfer(name), type, std::move(staging), tensors,
                 [=, exchange = std::move(exchange)](Backend& inner) mutable { return exchange(inner, host); }});
}
// LITERALINCLUDE END: distributed-send

WorkPtr StagedBackend::recv(Tensors& tensors, int source, int tag) {
  static constexpr auto kName = "recv";
  check_other_rank(kName, source, *this);
  return receive(kName, OpType::RECV, tensors,
                 [=](Backend& inner, Tensors& host) { return inner.recv(host, source, tag); });
}

WorkPtr StagedBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive("recv from any rank", OpType::RECVANYSOURCE, tensors,
                 [=](Backend& inner, Tensors& host) { return inner.recvAnysource(host, tag); });
}

}  // namespace openreg
