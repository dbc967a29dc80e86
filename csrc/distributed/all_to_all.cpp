// all_to_all in its two forms: each process has a part for each other, and gets one from each. Mixtures of experts send
// rows to the processes of their experts with it. Called on any thread, without the GIL.
#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

#include "distributed/staged_backend.h"

namespace openreg {
namespace {

using c10d::OpType;

// The memory of a tensor, here or on the host, whose first dimension is split among the processes: rows of bytes.
at::Tensor rows(const at::Tensor& flat, const at::Tensor& tensor) {
  const int64_t row = c10::multiply_integers(tensor.sizes().slice(1)) * static_cast<int64_t>(tensor.element_size());
  return bytes(flat).view({tensor.size(0), row});
}

// The bytes of a tensor that go to, or come from, each process. Without rows, all get the same number.
Tensors parts_of(const at::Tensor& flat, const at::Tensor& tensor, std::vector<int64_t> row_counts, int processes) {
  if (row_counts.empty()) row_counts.assign(processes, tensor.size(0) / processes);
  const at::Tensor by_row = rows(flat, tensor);
  return bytes(flattened(by_row.split_with_sizes(row_counts)));
}

// One buffer for a list of tensors, and the number of bytes of each.
struct Packed {
  at::Tensor buffer;
  std::vector<int64_t> sizes;
  Tensors parts;
};

Packed pack(const Tensors& tensors) {
  Packed packed;
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors) {
    packed.sizes.push_back(static_cast<int64_t>(tensor.nbytes()));
    total += packed.sizes.back();
  }
  packed.buffer = pinned(total, at::kByte);
  const Tensors parts = packed.buffer.split_with_sizes(packed.sizes);
  for (size_t i = 0; i < tensors.size(); ++i) packed.parts.push_back(parts[i].view(tensors[i].scalar_type()));
  return packed;
}

// LITERALINCLUDE START: distributed-row-counts
// The number of rows for each process. Without any, all get the same number.
void check_rows(const char* name, at::IntArrayRef counts, const at::Tensor& tensor, int processes) {
  TORCH_CHECK_VALUE(tensor.dim() > 0, name, ": a tensor without dimensions cannot be split");
  const int64_t rows = tensor.size(0);
  if (counts.empty()) {
    TORCH_CHECK_VALUE(rows % processes == 0, name, ": ", rows, " rows cannot be split equally among ", processes,
                      " processes");
    return;
  }
  const bool fit = counts.size() == static_cast<size_t>(processes) && c10::sum_integers(counts) == rows &&
                   std::ranges::all_of(counts, [](int64_t count) { return count >= 0; });
  TORCH_CHECK_VALUE(fit, name, ": expected ", processes, " numbers of rows with the sum ", rows, ", but got ", counts);
}
// LITERALINCLUDE END: distributed-row-counts

}  // namespace

// LITERALINCLUDE START: distributed-alltoall
WorkPtr StagedBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                                     std::vector<int64_t>& input_rows, const c10d::AllToAllOptions& options) {
  static constexpr auto kName = "all_to_all_single";
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(), kName, ": expected one dtype, but got ",
                   output.scalar_type(), " and ", input.scalar_type());
  check_rows(kName, output_rows, output, getSize());
  check_rows(kName, input_rows, input, getSize());
  const c10::Device device = device_of(kName, output, input);
  if (is_direct(kName, device, options.timeout)) {
    const at::Tensor from = flattened(input);
    const Tensors into = apart({output}, {from});
    return submit({next(kName),
                   OpType::ALLTOALL_BASE,
                   device,
                   options.timeout,
                   {output},
                   {from},
                   into,
                   [inputs = parts_of(from, input, input_rows, getSize()),
                    outputs = parts_of(into[0], output, output_rows, getSize())](DirectExchange& direct) {
                     direct.all_to_all(outputs, inputs);
                   }});
  }
  Staging staging(streams(device.index()));
  at::Tensor from = rows(staging.send(input), input);
  at::Tensor into = rows(staging.receive(output), output);
  return submit({next(kName),
                 OpType::ALLTOALL_BASE,
                 std::move(staging),
                 {output},
                 [=, into_rows = output_rows, from_rows = input_rows](Backend& inner) mutable {
                   return inner.alltoall_base(into, from, into_rows, from_rows, options);
                 }});
}

// Gloo has no such operation for lists. The parts lie one after another in one buffer, which is split by bytes.
WorkPtr StagedBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  static constexpr auto kName = "all_to_all";
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(getSize()) && inputs.size() == outputs.size(), kName,
                    ": expected ", getSize(), " outputs and inputs, one for each process, but got ", outputs.size(),
                    " and ", inputs.size());
  const c10::Device device = device_of(kName, outputs, inputs);
  if (is_direct(kName, device, options.timeout)) {
    const Tensors from = flattened(inputs);
    const Tensors into = apart(outputs, from);
    return submit({next(kName), OpType::ALLTOALL, device, options.timeout, outputs, from, into,
                   [=](DirectExchange& direct) { direct.all_to_all(bytes(into), bytes(from)); }});
  }
  Staging staging(streams(device.index()));
  Packed from = pack(inputs);
  Packed into = pack(outputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    staging.send(inputs[i], from.parts[i]);
    staging.receive(outputs[i], into.parts[i]);
  }
  return submit({next(kName), OpType::ALLTOALL, std::move(staging), outputs, [=](Backend& inner) mutable {
                   return inner.alltoall_base(into.buffer, from.buffer, into.sizes, from.sizes, options);
                 }});
}
// LITERALINCLUDE END: distributed-alltoall

}  // namespace openreg
