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

}  // namespace
}  // namespace openreg
