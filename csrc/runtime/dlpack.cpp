// Asks the driver about the memory that a DLPack capsule names, and for its readers.
#include "runtime/dlpack.h"

#include <c10/util/Exception.h>

#include <cstdint>

#include "driver/openreg.h"
#include "runtime/capture.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg {

// LITERALINCLUDE START: dlpack-check-memory
void check_dlpack_memory(const DLTensor& tensor) {
  int64_t elements = 1;
  int64_t first = 0;  // in elements; a stride may be negative
  int64_t last = 0;
  int64_t dense = 1;  // without strides, the elements are contiguous
  for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
    const int64_t step = tensor.strides != nullptr ? tensor.strides[i] : dense;
    elements *= tensor.shape[i];
    dense *= tensor.shape[i];
    (step < 0 ? first : last) += step * (tensor.shape[i] - 1);
  }
  if (elements == 0) return;  // PyTorch itself exports a null pointer then
  const int64_t bits = int64_t{tensor.dtype.bits} * tensor.dtype.lanes;
  const char* const data = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  const char* const begin = data + first * bits / 8;
  const char* const end = data + ((last + 1) * bits + 7) / 8;
  orPointerAttributes memory{};
  check(orPointerGetAttributes(&memory, begin));
  TORCH_CHECK_BUFFER(memory.type == orMemoryTypeDevice,
                     "openreg: a DLPack capsule for openreg:", tensor.device.device_id, " points to ",
                     static_cast<const void*>(data),
                     ", which is no memory of a device: the producer must name the device that holds its memory");
  TORCH_CHECK_BUFFER(
      memory.device == tensor.device.device_id, "openreg: a DLPack capsule for openreg:", tensor.device.device_id,
      " points to memory of openreg:", memory.device, ": the producer must name the device that holds its memory");
  const char* const base = static_cast<const char*>(memory.base);
  TORCH_CHECK_BUFFER(end <= base + memory.size, "openreg: a DLPack capsule names bytes ", begin - base, " to ",
                     end - base, " of an allocation of ", memory.size,
                     " bytes: the producer's shape, strides or offset are wrong");
}
// LITERALINCLUDE END: dlpack-check-memory

// LITERALINCLUDE START: dlpack-wait
void wait_for_readers(const c10::Stream& stream) {
  orStream_t handle = stream_handle(stream);
  if (!is_capturing(handle)) check(orStreamSynchronize(handle));
}
// LITERALINCLUDE END: dlpack-wait

}  // namespace openreg
