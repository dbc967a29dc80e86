// reduce_scatter in its three forms: the reduced tensors are split among the processes. FSDP reduces gradients with it.
// Called on any thread, without the GIL.
#include <utility>

#include "distributed/staged_backend.h"

namespace openreg {
namespace {

using c10d::OpType;

c10d::ReduceScatterOptions host_options(c10d::ReduceScatterOptions options, const Reduction& reduction) {
  options.reduceOp = reduction.on_host();
  return options;
}

// Each input has the parts of all processes in their order, one of which is the size of its output.
void check_parts(const char* name, const Tensors& outputs, const Tensors& inputs, int processes) {
  TORCH_CHECK_VALUE(!inputs.empty() && outputs.size() == inputs.size(), name,
                    ": expected as many outputs as inputs, and at least one, but got ", outputs.size(), " and ",
                    inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(inputs[i].numel() == outputs[i].numel() * processes, name, ": expected an input of ",
                      outputs[i].numel() * processes, " elements for ", processes, " processes, but got ",
                      inputs[i].numel());
    for (const at::Tensor& tensor : {inputs[i], outputs[i]}) {
      TORCH_CHECK_TYPE(tensor.scalar_type() == inputs[0].scalar_type(), name, ": expected one dtype, but got ",
                       inputs[0].scalar_type(), " and ", tensor.scalar_type());
    }
  }
}

}  // namespace

// LITERALINCLUDE START: distributed-reduce-scatter
WorkPtr StagedBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                            const c10d::ReduceScatterOptions& options) {
  static constexpr auto kName = "reduce_scatter_single";
  Tensors outputs{output};
  Tensors inputs{input};
  check_parts(kName, outputs, inputs, getSize());
  const Reduction reduction(kName, options.reduceOp, input.scalar_type(), getSize());
  const c10::Device device = device_of(kName, outputs, inputs);
  if (!is_direct(kName, device, options.timeout, output.nbytes())) {
    return reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
  const at::Tensor from = flattened(reduction.prepare(input));
  const Tensors parts = reduction.view(from).view({getSize(), -1}).unbind();
  const Tensors into = apart(outputs, {from});
  return submit({next(kName),
                 OpType::_REDUCE_SCATTER_BASE,
                 device,
                 options.timeout,
                 outputs,
                 {from},
                 into,
                 [=](DirectExchange& direct) { direct.reduce_scatter(reduction.view(into[0]), parts, reduction); }});
}

WorkPtr StagedBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  static constexpr auto kName = "reduce_scatter_single";
  check_parts(kName, outputs, inputs, getSize());
  const Reduction reduction(kName, options.reduceOp, inputs[0].scalar_type(), getSize());
  const c10::Device device = device_of(kName, outputs, inputs);
  Tensors prepared;
  for (const at::Tensor& input : inputs) prepared.push_back(reduction.prepare(input));
  Staging staging(streams(device.index()));
  Tensors from;
  Tensors into;
  Tensors hosts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    from.push_back(reduction.view(staging.send(prepared[i])));
    hosts.push_back(staging.receive(outputs[i]));
    into.push_back(reduction.view(hosts.back()));
  }
  return submit({next(kName), OpType::REDUCE_SCATTER_TENSOR_COALESCED, std::move(staging), outputs,
                 [=](Backend& inner) mutable {
                   return inner.reduce_scatter_tensor_coalesced(into, from, host_options(options, reduction));
                 },
                 [=] {
                   for (const at::Tensor& host : hosts) reduction.finish(host);
                 }});
}
// LITERALINCLUDE END: distributed-reduce-scatter

WorkPtr StagedBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                      const c10d::ReduceScatterOptions& options) {
  static constexpr auto kName = "reduce_scatter";
  TORCH_CHECK_VALUE(outputs.size() == 1 && inputs.size() == 1, kName, ": expected one output and one list of inputs, ",
                    "but got ", outputs.size(), " and ", inputs.size());
  TORCH_CHECK_VALUE(inputs[0].size() == static_cast<size_t>(getSize()), kName, ": expected ", getSize(),
                    " inputs, one for each process, but got ", inputs[0].size());
  const Reduction reduction(kName, options.reduceOp, outputs[0].scalar_type(), getSize());
  const c10::Device device = device_of(kName, outputs, inputs[0]);
  Tensors prepared;
  for (const at::Tensor& input : inputs[0]) {
    TORCH_CHECK_VALUE(input.numel() == outputs[0].numel(), kName, ": expected inputs of ", outputs[0].numel(),
                      " elements, but got one of ", input.numel());
    TORCH_CHECK_TYPE(input.scalar_type() == outputs[0].scalar_type(), kName, ": expected one dtype, but got ",
                     outputs[0].scalar_type(), " and ", input.scalar_type());
    prepared.push_back(reduction.prepare(input));
  }
  if (is_direct(kName, device, options.timeout, outputs[0].nbytes())) {
    const Tensors from = flattened(prepared);
    const Tensors into = apart(outputs, from);
    return submit({next(kName), OpType::REDUCE_SCATTER, device, options.timeout, outputs, from, into,
                   [=](DirectExchange& direct) {
                     Tensors parts;
                     for (const at::Tensor& part : from) parts.push_back(reduction.view(part));
                     direct.reduce_scatter(reduction.view(into[0]), parts, reduction);
                   }});
  }
  Staging staging(streams(device.index()));
  TensorLists from(1);
  for (const at::Tensor& input : prepared) from[0].push_back(reduction.view(staging.send(input)));
  const at::Tensor host = staging.receive(outputs[0]);
  Tensors into{reduction.view(host)};
  return submit(
      {next(kName), OpType::REDUCE_SCATTER, std::move(staging), outputs,
       [=](Backend& inner) mutable { return inner.reduce_scatter(into, from, host_options(options, reduction)); },
       [=] { reduction.finish(host); }});
}

}  // namespace openreg
