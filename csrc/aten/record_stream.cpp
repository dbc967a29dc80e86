// Tensor.record_stream: the user's word that another stream uses the tensor's memory, too.
// Called on any thread, with or without the GIL.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "runtime/allocator.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: memory-record-stream-operator
// schema: aten::record_stream(Tensor(a!) self, Stream s) -> ()
void record_stream(at::Tensor& self, c10::Stream stream) {
  allocator().recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("record_stream", record_stream); }
// LITERALINCLUDE END: memory-record-stream-operator

// A lazy conjugate has the memory of its base. PyTorch's fallback would record a copy instead, and then take a result
// from the stack that this operator has not put there: it writes beyond the stack.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("record_stream", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("record_stream", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace openreg
