// Tensor.record_stream: the user declares that another stream also uses the tensor's memory.
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

// A lazy conjugate shares the memory of its base. PyTorch's fallback would record a copy instead, and then take from
// the stack a result that this operator never pushed, which writes out of bounds.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("record_stream", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("record_stream", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace openreg
