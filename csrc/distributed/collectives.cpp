// The collectives of torch.distributed: each says which tensors travel in which direction, and which collective of the
// host library exchanges them.
//
// Only reductions need to know what the bytes mean. All other operations exchange bytes, so they take every dtype.
// Called on any thread, without the GIL.
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include <utility>

#include "distributed/staged_backend.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

using c10d::OpType;

// LITERALINCLUDE START: distributed-bytes
// Several tensors of the same number of elements, one for each process.
void check_pieces(const char* name, const Tensors& pieces, const at::Tensor& whole, int processes) {
  TORCH_CHECK_VALUE(pieces.size() == static_cast<size_t>(processes), name, ": expected ", processes,
                    " tensors, one for each process, but got ", pieces.size());
  for (const at::Tensor& piece : pieces) {
    TORCH_CHECK_VALUE(piece.numel() == whole.numel(), name, ": expected tensors of ", whole.numel(),
                      " elements, but got one of ", piece.numel());
    TORCH_CHECK_TYPE(piece.scalar_type() == whole.scalar_type(), name, ": expected tensors of ", whole.scalar_type(),
                     ", but got one of ", piece.scalar_type());
  }
}
// LITERALINCLUDE END: distributed-bytes

// One tensor that consists of the parts of all processes.
void check_whole(const char* name, const at::Tensor& whole, const at::Tensor& part, int processes) {
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * processes, name, ": expected ", part.numel() * processes,
                    " elements for ", processes, " processes, but got ", whole.numel());
  TORCH_CHECK_TYPE(whole.scalar_type() == part.scalar_type(), name, ": expected one dtype, but got ",
                   whole.scalar_type(), " and ", part.scalar_type());
}

void check_one(const char* name, size_t tensors) {
  TORCH_CHECK_VALUE(tensors == 1, name, ": expected one tensor for each process, but got ", tensors);
}

void check_same_count(const char* name, size_t outputs, size_t inputs) {
  TORCH_CHECK_VALUE(outputs == inputs, name, ": expected as many outputs as inputs, but got ", outputs, " and ",
                    inputs);
}

void check_root(const char* name, int64_t root, int processes) {
  TORCH_CHECK_VALUE(root >= 0 && root < processes, name, ": expected a root from 0 to ", processes - 1, ", but got ",
                    root);
}

Tensors flat(const TensorLists& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Tensors send_all(Staging& staging, const Tensors& tensors) {
  Tensors hosts;
  for (const at::Tensor& tensor : tensors) hosts.push_back(bytes(staging.send(tensor)));
  return hosts;
}

Tensors receive_all(Staging& staging, const Tensors& tensors) {
  Tensors hosts;
  for (const at::Tensor& tensor : tensors) hosts.push_back(bytes(staging.receive(tensor)));
  return hosts;
}

}  // namespace

// LITERALINCLUDE START: distributed-broadcast
WorkPtr StagedBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  static constexpr auto kName = "broadcast";
  check_one(kName, tensors.size());
  check_root(kName, options.rootRank, getSize());
  const auto root = static_cast<int>(options.rootRank);
  const bool is_root = root == getRank();
  const c10::Device device = is_root ? device_of(kName, {}, tensors) : device_of(kName, tensors);
  if (is_direct(kName, device, options.timeout, tensors[0].nbytes())) {
    const at::Tensor flat = flattened(tensors[0]);
    const at::Tensor into = is_root ? tensors[0] : flat;  // The root's stays as it is.
    return submit(
        {next(kName), OpType::BROADCAST, device, options.timeout, tensors, {flat}, {into}, [=](DirectExchange& direct) {
           direct.broadcast(bytes(flat), root);
         }});
  }
  Staging staging(streams(device.index()));
  Tensors host{bytes(is_root ? staging.send(tensors[0]) : staging.receive(tensors[0]))};
  return submit({next(kName), OpType::BROADCAST, std::move(staging), tensors,
                 [=](Backend& inner) mutable { return inner.broadcast(host, options); }});
}
// LITERALINCLUDE END: distributed-broadcast

// LITERALINCLUDE START: distributed-allreduce
WorkPtr StagedBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  static constexpr auto kName = "all_reduce";
  check_one(kName, tensors.size());
  const Reduction reduction(kName, options.reduceOp, tensors[0].scalar_type(), getSize());
  const c10::Device device = device_of(kName, tensors);
  const at::Tensor prepared = reduction.prepare(tensors[0]);
  if (is_direct(kName, device, options.timeout, prepared.nbytes())) {
    const at::Tensor into = flattened(prepared);
    return submit(
        {next(kName), OpType::ALLREDUCE, device, options.timeout, tensors, {}, {into}, [=](DirectExchange& direct) {
           direct.all_reduce(reduction.view(into), reduction);
         }});
  }
  Staging staging(streams(device.index()));
  const at::Tensor host = staging.send(prepared);
  staging.receive(tensors[0], host);
  return submit({next(kName), OpType::ALLREDUCE, std::move(staging), tensors,
                 [=](Backend& inner) {
                   c10d::AllreduceOptions on_host = options;
                   on_host.reduceOp = reduction.on_host();
                   Tensors view{reduction.view(host)};
                   return inner.allreduce(view, on_host);
                 },
                 [=] { reduction.finish(host); }});
}
// LITERALINCLUDE END: distributed-allreduce

WorkPtr StagedBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  static constexpr auto kName = "all_reduce_coalesced";
  TORCH_CHECK_VALUE(!tensors.empty(), kName, ": expected at least one tensor");
  const Reduction reduction(kName, options.reduceOp, tensors[0].scalar_type(), getSize());
  const c10::Device device = device_of(kName, tensors);
  Tensors prepared;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_TYPE(tensor.scalar_type() == tensors[0].scalar_type(), kName, ": expected one dtype, but got ",
                     tensors[0].scalar_type(), " and ", tensor.scalar_type());
    prepared.push_back(reduction.prepare(tensor));
  }
  Staging staging(streams(device.index()));
  Tensors hosts;
  Tensors views;
  for (size_t i = 0; i < tensors.size(); ++i) {
    hosts.push_back(staging.send(prepared[i]));
    staging.receive(tensors[i], hosts.back());
    views.push_back(reduction.view(hosts.back()));
  }
  return submit({next(kName), OpType::ALLREDUCE_COALESCED, std::move(staging), tensors,
                 [=](Backend& inner) mutable {
                   c10d::AllreduceCoalescedOptions on_host = options;
                   on_host.reduceOp = reduction.on_host();
                   return inner.allreduce_coalesced(views, on_host);
                 },
                 [=] {
                   for (const at::Tensor& host : hosts) reduction.finish(host);
                 }});
}

WorkPtr StagedBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  static constexpr auto kName = "reduce";
  check_one(kName, tensors.size());
  check_root(kName, options.rootRank, getSize());
  const Reduction reduction(kName, options.reduceOp, tensors[0].scalar_type(), getSize());
  const auto root = static_cast<int>(options.rootRank);
  const bool is_root = root == getRank();
  const c10::Device device = is_root ? device_of(kName, tensors) : device_of(kName, {}, tensors);
  const at::Tensor prepared = reduction.prepare(tensors[0]);
  if (is_direct(kName, device, options.timeout, prepared.nbytes())) {
    const at::Tensor from = flattened(prepared);
    const at::Tensor into = is_root ? flattened(tensors[0]) : tensors[0];  // The others' stay as they are.
    return submit(
        {next(kName), OpType::REDUCE, device, options.timeout, tensors, {from}, {into}, [=](DirectExchange& direct) {
           direct.reduce(is_root ? reduction.view(into) : into, reduction.view(from), root, reduction);
         }});
  }
  Staging staging(streams(device.index()));
  const at::Tensor host = staging.send(prepared);
  // The tensors of the other processes stay as they are.
  if (is_root) staging.receive(tensors[0], host);
  return submit({next(kName), OpType::REDUCE, std::move(staging), tensors,
                 [=](Backend& inner) {
                   c10d::ReduceOptions on_host = options;
                   on_host.reduceOp = reduction.on_host();
                   Tensors view{reduction.view(host)};
                   return inner.reduce(view, on_host);
                 },
                 [=] { reduction.finish(host); }});
}

// LITERALINCLUDE START: distributed-allgather
WorkPtr StagedBackend::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  static constexpr auto kName = "all_gather";
  check_one(kName, inputs.size());
  check_same_count(kName, outputs.size(), inputs.size());
  check_pieces(kName, outputs[0], inputs[0], getSize());
  const c10::Device device = device_of(kName, outputs[0], inputs);
  if (is_direct(kName, device, options.timeout, inputs[0].nbytes())) {
    return gather_directly({next(kName), OpType::ALLGATHER, device, options.timeout, outputs[0]}, inputs[0]);
  }
  Staging staging(streams(device.index()));
  Tensors from = send_all(staging, inputs);
  TensorLists into{receive_all(staging, outputs[0])};
  return submit({next(kName), OpType::ALLGATHER, std::move(staging), outputs[0],
                 [=](Backend& inner) mutable { return inner.allgather(into, from, options); }});
}
// LITERALINCLUDE END: distributed-allgather

WorkPtr StagedBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  static constexpr auto kName = "all_gather_single";
  check_whole(kName, output, input, getSize());
  const c10::Device device = device_of(kName, output, input);
  if (is_direct(kName, device, options.timeout, input.nbytes())) {
    const at::Tensor whole = flattened(output);
    at::Tensor part = flattened(input);
    // The input may be this rank's part of the output, as in FSDP. Elsewhere in the output, another part comes over it.
    const bool is_in_place = part.storage_offset() == whole.storage_offset() + getRank() * part.numel();
    if (part.is_alias_of(whole) && !is_in_place) part = part.clone();
    const Tensors outputs = bytes(whole).view({getSize(), -1}).unbind();
    return submit({next(kName),
                   OpType::_ALLGATHER_BASE,
                   device,
                   options.timeout,
                   {output},
                   {part},
                   {whole},
                   [=](DirectExchange& direct) { direct.gather(outputs, bytes(part), -1); }});
  }
  Staging staging(streams(device.index()));
  at::Tensor from = bytes(staging.send(input));
  at::Tensor into = bytes(staging.receive(output));
  return submit({next(kName), OpType::_ALLGATHER_BASE, std::move(staging), {output}, [=](Backend& inner) mutable {
                   return inner._allgather_base(into, from, options);
                 }});
}

WorkPtr StagedBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& options) {
  static constexpr auto kName = "all_gather_coalesced";
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(getSize()), kName, ": expected ", getSize(),
                    " lists, one for each process, but got ", outputs.size());
  for (const Tensors& list : outputs) {
    check_same_count(kName, list.size(), inputs.size());
    for (size_t i = 0; i < list.size(); ++i) check_whole(kName, list[i], inputs[i], 1);
  }
  const Tensors results = flat(outputs);
  Staging staging = stage(kName, results, inputs);
  Tensors from = send_all(staging, inputs);
  TensorLists into;
  for (const Tensors& list : outputs) into.push_back(receive_all(staging, list));
  return submit({next(kName), OpType::ALLGATHER_COALESCED, std::move(staging), results,
                 [=](Backend& inner) mutable { return inner.allgather_coalesced(into, from, options); }});
}

WorkPtr StagedBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                       const c10d::AllgatherOptions& options) {
  static constexpr auto kName = "all_gather_single_coalesced";
  check_same_count(kName, outputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) check_whole(kName, outputs[i], inputs[i], getSize());
  Staging staging = stage(kName, outputs, inputs);
  Tensors from = send_all(staging, inputs);
  Tensors into = receive_all(staging, outputs);
  return submit({next(kName), OpType::COALESCED, std::move(staging), outputs,
                 [=](Backend& inner) mutable { return inner.allgather_into_tensor_coalesced(into, from, options); }});
}

WorkPtr StagedBackend::gather_directly(DirectOperation operation, const at::Tensor& input, int root) {
  operation.from = {flattened(input)};
  operation.into = apart(operation.results, operation.from);
  operation.exchange = [from = operation.from, into = operation.into, root](DirectExchange& direct) {
    direct.gather(bytes(into), bytes(from[0]), root);
  };
  return submit(std::move(operation));
}

WorkPtr StagedBackend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  static constexpr auto kName = "gather";
  check_one(kName, inputs.size());
  check_root(kName, options.rootRank, getSize());
  const bool is_root = options.rootRank == getRank();
  TORCH_CHECK_VALUE(outputs.size() == (is_root ? 1 : 0), kName, ": the root alone has a list of outputs, but rank ",
                    getRank(), " has ", outputs.size(), " lists, and the root is ", options.rootRank);
  if (is_root) check_pieces(kName, outputs[0], inputs[0], getSize());
  const Tensors results = flat(outputs);
  const c10::Device device = device_of(kName, results, inputs);
  if (is_direct(kName, device, options.timeout, inputs[0].nbytes())) {
    return gather_directly({next(kName), OpType::GATHER, device, options.timeout, results}, inputs[0],
                           static_cast<int>(options.rootRank));
  }
  Staging staging(streams(device.index()));
  Tensors from = send_all(staging, inputs);
  TensorLists into;
  if (is_root) into.push_back(receive_all(staging, results));
  return submit({next(kName), OpType::GATHER, std::move(staging), results,
                 [=](Backend& inner) mutable { return inner.gather(into, from, options); }});
}

WorkPtr StagedBackend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  static constexpr auto kName = "scatter";
  check_one(kName, outputs.size());
  check_root(kName, options.rootRank, getSize());
  const auto root = static_cast<int>(options.rootRank);
  const bool is_root = root == getRank();
  TORCH_CHECK_VALUE(inputs.size() == (is_root ? 1 : 0), kName, ": the root alone has a list of inputs, but rank ",
                    getRank(), " has ", inputs.size(), " lists, and the root is ", options.rootRank);
  if (is_root) check_pieces(kName, inputs[0], outputs[0], getSize());
  const Tensors sources = flat(inputs);
  const c10::Device device = device_of(kName, outputs, sources);
  if (is_direct(kName, device, options.timeout, outputs[0].nbytes())) {
    const Tensors from = flattened(sources);
    const Tensors into = apart(outputs, from);
    return submit({next(kName), OpType::SCATTER, device, options.timeout, outputs, from, into,
                   [=](DirectExchange& direct) { direct.scatter(bytes(into[0]), bytes(from), root); }});
  }
  Staging staging(streams(device.index()));
  TensorLists from;
  if (is_root) from.push_back(send_all(staging, sources));
  Tensors into = receive_all(staging, outputs);
  return submit({next(kName), OpType::SCATTER, std::move(staging), outputs,
                 [=](Backend& inner) mutable { return inner.scatter(into, from, options); }});
}

// LITERALINCLUDE START: distributed-barrier
// Waits for the work that was queued on the current stream of each process, as a collective on tensors would: the
// stream of the device that the program names, or else that of the group, or else the current one.
WorkPtr StagedBackend::barrier(const c10d::BarrierOptions& options) {
  static constexpr auto kName = "barrier";
  c10::DeviceIndex device = -1;
  if (!options.device_ids.empty()) {
    device = static_cast<c10::DeviceIndex>(options.device_ids[0]);
  } else if (const std::optional<c10::Device> bound = getBoundDeviceId(); bound && bound->is_privateuseone()) {
    device = bound->index();
  }
  const c10::Stream stream = current_stream(device);
  expect_possible(kName, stream.device());
  Staging staging(streams(stream.device_index()));
  return submit({next(kName), OpType::BARRIER, std::move(staging), {}, [=](Backend& inner) {
                   c10d::BarrierOptions on_host;
                   on_host.timeout = options.timeout;
                   return inner.barrier(on_host);
                 }});
}
// LITERALINCLUDE END: distributed-barrier

}  // namespace openreg
