// Tensors that are not plain strided ones: nested, sparse and quantized. Their calls use dispatch keys of their own.
// Nested tensors work as far as PyTorch's own code for them does, sparse compressed ones can be inspected and moved,
// and the others are rejected, most of them by name. Called on any thread, with or without the GIL.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/_nested_from_padded_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/values_native.h>
#include <torch/library.h>

#include <optional>
#include <string>

namespace openreg {
namespace {

// LITERALINCLUDE START: layouts-device
bool is_ours(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

// The device of a call: that of a tensor among its arguments, or the one that it names.
std::optional<c10::Device> device_of(const c10::OperatorHandle& op, const torch::jit::Stack* stack) {
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (argument.isTensor() && is_ours(argument.toTensor())) return argument.toTensor().device();
    if (argument.isDevice()) return argument.toDevice();
    if (!argument.isTensorList()) continue;
    for (const at::Tensor& tensor : argument.toTensorVector()) {
      if (is_ours(tensor)) return tensor.device();
    }
  }
  return std::nullopt;  // NOT PROVEN: every call at these keys has a tensor of the device, or names it
}
// LITERALINCLUDE END: layouts-device

// LITERALINCLUDE START: layouts-refuse
[[noreturn]] void refuse(const c10::OperatorHandle& op, const torch::jit::Stack* stack, const char* kind,
                         const char* cure) {
  const std::optional<c10::Device> device = device_of(op, stack);
  C10_THROW_ERROR(NotImplementedError,
                  c10::str("openreg: ", op.operator_name(), " is not supported for ", kind, " tensors on ",
                           device.has_value() ? device->str() : "openreg", "; ", cure));
}

void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse(op, stack, "sparse COO",
         "keep them on the CPU, or make them dense before they are moved: x.to_dense().to(device). Gradients of "
         "nn.Embedding and nn.EmbeddingBag are dense with sparse=False");
}

void refuse_compressed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse(
      op, stack, "sparse compressed (CSR, CSC, BSR, BSC)",
      "they can be moved, printed and taken apart there; compute on the CPU with x.cpu(), or with x.cpu().to_dense()");
}

void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse(op, stack, "quantized",
         "keep them on the CPU, or move x.dequantize(); fake quantization and products of integer tensors work here");
}

void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse(op, stack, "nested strided",
         "use layout=torch.jagged, or the tensors of x.unbind(), or compute on the CPU with x.cpu()");
}

// Rejects every operator without a kernel at the key; a composite one is rejected through the operators that it calls.
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_compressed>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
}
// LITERALINCLUDE END: layouts-refuse

// LITERALINCLUDE START: layouts-composite
// PyTorch itself has kernels of some operators for every key, most of those on elements among them, and they win over
// the fallback. They read strides and data, which a compressed tensor lacks: some name neither device nor cure in their
// error, and some crash.
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  const auto for_every_key = c10::DispatchKey::CompositeExplicitAutogradNonFunctional;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getRegistrationsForDispatchKey(for_every_key)) {
    if (name.getNamespace() == "aten") {
      m.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&refuse_compressed>());
    }
  }
  m.impl("select.int", torch::CppFunction::makeFromBoxedFunction<&refuse_compressed>());  // x[1]: another such list
}
// LITERALINCLUDE END: layouts-composite

// LITERALINCLUDE START: layouts-compressed
// PyTorch creates such a tensor without calling an operator of the device: x.to(device) moves its parts and reassembles
// them. So it cannot be rejected, and must at least be printed, copied and moved back. These read its parts.
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("_nnz", TORCH_FN(at::native::_nnz_sparse_csr));
  m.impl("ccol_indices", TORCH_FN(at::native::ccol_indices_sparse_csr));
  m.impl("clone", TORCH_FN(at::native::clone_sparse_compressed));
  m.impl("col_indices", TORCH_FN(at::native::col_indices_sparse_csr));
  m.impl("crow_indices", TORCH_FN(at::native::crow_indices_sparse_csr));
  m.impl("dense_dim", TORCH_FN(at::native::dense_dim_sparse_csr));
  m.impl("row_indices", TORCH_FN(at::native::row_indices_sparse_csr));
  m.impl("sparse_dim", TORCH_FN(at::native::sparse_dim_sparse_csr));
  m.impl("values", TORCH_FN(at::native::values_sparse_csr));
}
// LITERALINCLUDE END: layouts-compressed

// LITERALINCLUDE START: layouts-nested
// A nested tensor is one buffer on the device, and a table of sizes on the CPU. PyTorch's nested kernels read the
// table, split the buffer into plain tensors, and call operators on these, which dispatch to this device. So the CPU's
// nested kernel serves every device, unless it reads the buffer itself.
void by_operators(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::NestedTensorCPU), stack);
}

constexpr const char* kByOperators[] = {
    // to inspect, move and split nested tensors
    "_nested_select_backward",
    "_nested_tensor_size",
    "_nested_tensor_storage_offsets",
    "_nested_tensor_strides",
    "_to_copy",
    "alias",
    "clone",
    "copy_",
    "detach",
    "empty_like",
    "is_same_size",
    "select.int",
    "to_padded_tensor",
    "transpose.int",
    "unbind.int",
    "values",
    // called by attention over the jagged layout, and by its gradients
    "_safe_softmax",
    "_softmax",
    "_softmax_backward_data",
    "add.Tensor",
    "all.dim",
    "bmm",
    "isneginf",
    "linear",
    "linear_backward",
    "matmul",
    "matmul_backward",
    "mul.Scalar",
    "mul.Tensor",
    "where.self_out",
};

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  for (const char* name : kByOperators) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&by_operators>());
}

// schema: aten::_nested_view_from_buffer(Tensor(a) self, Tensor nested_size, Tensor nested_strides, Tensor offsets)
//         -> Tensor(a)
//
// The host reads the tables. torch.load with map_location moves them to the device, together with the buffer.
at::Tensor nested_view_from_buffer(const at::Tensor& buffer, const at::Tensor& sizes, const at::Tensor& strides,
                                   const at::Tensor& offsets) {
  return at::native::_nested_view_from_buffer(buffer, sizes.cpu(), strides.cpu(), offsets.cpu());
}

// These take plain tensors: the buffer, or padded rows. Gradients flow back through them.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_nested_from_padded", TORCH_FN(at::native::nested_from_padded_generic));
  m.impl("_nested_view_from_buffer", nested_view_from_buffer);
}
// LITERALINCLUDE END: layouts-nested

}  // namespace
}  // namespace openreg
