// Copies between host and device, within a device and between devices: Tensor.copy_, .to, .cpu and .clone end here.
//
// The driver moves bytes. So each copy is first brought to a form in which source and destination hold the same bytes
// in the same order: the CPU converts dtype, strides and lazy bits on the host, strided_copy on the device.
// Called on any thread, with or without the GIL.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_copy_from_native.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include "aten/strided_copy.h"
#include "runtime/capture.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/event.h"
#include "runtime/host_allocator.h"
#include "runtime/kernel_error.h"
#include "runtime/storage.h"
#include "runtime/stream.h"
#include "runtime/sync_debug.h"
#include "runtime/wait.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: copy-same-bytes
// Whether copying numel * itemsize bytes is sufficient.
bool holds_same_bytes(const at::Tensor& dst, const at::Tensor& src) {
  return dst.scalar_type() == src.scalar_type() && dst.is_conj() == src.is_conj() && dst.is_neg() == src.is_neg() &&
         dst.is_non_overlapping_and_dense() && dst.strides() == src.strides();
}
// LITERALINCLUDE END: copy-same-bytes

// LITERALINCLUDE START: copy-empty-dense
// An uninitialized tensor on `device` with the dtype and the lazy bits of `like`, and its layout without gaps.
at::Tensor empty_dense(const at::Tensor& like, c10::Device device) {
  const bool keep_strides = like.is_non_overlapping_and_dense();
  const c10::DimVector contiguous = c10::contiguous_strides(like.sizes());
  at::Tensor dense = at::empty_strided(like.sizes(), keep_strides ? like.strides() : at::IntArrayRef(contiguous),
                                       like.options().device(device));
  dense._set_conj(like.is_conj());
  dense._set_neg(like.is_neg());
  return dense;
}
// LITERALINCLUDE END: copy-empty-dense

// LITERALINCLUDE START: copy-within-device
void copy_within_device(const at::Tensor& dst, const at::Tensor& src) {
  if (holds_same_bytes(dst, src)) {
    if (dst.const_data_ptr() == src.const_data_ptr()) return;  // two views of the same elements; drivers may refuse it
    const DriverCall call("orMemcpyAsync");
    check(orMemcpyAsync(dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(), orMemcpyDeviceToDevice,
                        current_stream_handle(dst.device().index())));
  } else {
    strided_copy(dst, src);
  }
}
// LITERALINCLUDE END: copy-within-device

// LITERALINCLUDE START: copy-between-devices
// The copy runs on the source's stream, after earlier and before later work on the destination's stream.
void copy_between_devices(const at::Tensor& dst, const at::Tensor& src) {
  if (!dst.is_non_overlapping_and_dense()) {
    const at::Tensor dense = empty_dense(dst, dst.device());
    copy_between_devices(dense, src);
    copy_within_device(dst, dense);
    return;
  }
  if (!holds_same_bytes(dst, src)) {
    const at::Tensor same = empty_dense(dst, src.device());
    copy_within_device(same, src);
    copy_between_devices(dst, same);
    return;
  }
  const c10::Stream sender = current_stream(src.device().index());
  const c10::Stream receiver = current_stream(dst.device().index());
  order_streams(receiver, sender);
  {
    const DriverCall call("orMemcpyAsync");
    check(orMemcpyAsync(dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(), orMemcpyDeviceToDevice,
                        stream_handle(sender)));
  }
  order_streams(sender, receiver);
}
// LITERALINCLUDE END: copy-between-devices

// LITERALINCLUDE START: copy-transfer
// Queues the copy, and waits for it unless the caller passed non_blocking=True. With pageable memory the driver returns
// only when it has finished with the host's side, so earlier work is waited for here, where Ctrl-C can interrupt the
// wait: unless the driver may take a copy of the host's side and return.
void transfer(const at::Tensor& dst, const at::Tensor& src, orMemcpyKind kind, bool non_blocking) {
  const bool to_device = kind == orMemcpyHostToDevice;
  const c10::DataPtr& data = (to_device ? src : dst).storage().data_ptr();
  const c10::DeviceIndex device = (to_device ? dst : src).device().index();
  void* const pinned = non_blocking ? pinned_memory_with(data.get()) : nullptr;
  // The host tensor may be freed before the copy has run: its memory must not be reused until then. The cache knows
  // memory by its start, and a tensor of another library, such as NumPy, may begin behind it.
  const auto keep = [&](void* memory) {
    if (memory != nullptr) host_allocator().record_event(memory, data.get_context(), current_stream(device));
  };
  orStream_t stream = current_stream_handle(device);
  if (!non_blocking) {
    before_implicit_wait(to_device ? "a copy to the device without non_blocking=True"
                                   : "a copy to the CPU without non_blocking=True, or one that the host converts",
                         stream);
  } else if (pinned == nullptr && !to_device) {
    before_implicit_wait("a copy to the CPU with non_blocking=True into memory that is not pinned", stream);
  } else if (pinned == nullptr) {
    refuse_in_capture(stream, "a copy to the device reads host memory that is not pinned");
  }
  const auto copy = [&] {
    const DriverCall call("orMemcpyAsync");
    if (!non_blocking || (pinned == nullptr && !to_device)) wait_for_stream(stream, device);
    check(orMemcpyAsync(dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(), kind, stream));
  };
  // Operators run without the GIL, but torch.save, pickle and accesses of a storage copy with it.
  pinned != nullptr ? copy() : wait_without_gil(copy);
  if (!non_blocking) {
    try {
      wait_without_gil([&] { synchronize_stream(stream, device); });
    } catch (...) {  // of a signal's handler: the copy is still queued if the memory is pinned
      keep(pinned_memory_with(data.get()));
      throw;
    }
  } else if (pinned != nullptr) {
    keep(pinned);
  } else if (!to_device) {
    raise_kernel_error(device);  // the driver has waited
  }
}
// LITERALINCLUDE END: copy-transfer

// LITERALINCLUDE START: copy-converted-by-device
// Whether the device can convert the dtype, so that the copy need not wait: the host memory is pinned, and the driver
// accesses it directly. Otherwise the host converts, and the transfer uses the device tensor's dtype, which may be
// smaller.
bool device_converts(const at::Tensor& host, bool non_blocking) {
  return non_blocking && host.is_non_overlapping_and_dense() && is_pinned(host.storage().data_ptr().get());
}
// LITERALINCLUDE END: copy-converted-by-device

// LITERALINCLUDE START: copy-to-device
void copy_to_device(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (!dst.is_non_overlapping_and_dense()) {
    const at::Tensor dense = empty_dense(dst, dst.device());
    copy_to_device(dense, src, non_blocking);
    copy_within_device(dst, dense);
  } else if (holds_same_bytes(dst, src)) {
    transfer(dst, src, orMemcpyHostToDevice, non_blocking);
  } else if (device_converts(src, non_blocking)) {
    const at::Tensor same = empty_dense(src, dst.device());
    transfer(same, src, orMemcpyHostToDevice, non_blocking);
    copy_within_device(dst, same);
  } else {
    const at::Tensor same = empty_dense(dst, c10::kCPU);
    same.copy_(src);
    transfer(dst, same, orMemcpyHostToDevice, non_blocking);  // the driver has read `same` when it returns
  }
}
// LITERALINCLUDE END: copy-to-device

// LITERALINCLUDE START: copy-to-host
void copy_to_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (holds_same_bytes(dst, src)) {
    transfer(dst, src, orMemcpyDeviceToHost, non_blocking);
  } else if (device_converts(dst, non_blocking)) {
    const at::Tensor same = empty_dense(dst, src.device());
    copy_within_device(same, src);
    transfer(dst, same, orMemcpyDeviceToHost, non_blocking);
  } else if (!src.is_non_overlapping_and_dense()) {
    const at::Tensor dense = empty_dense(src, src.device());
    copy_within_device(dense, src);
    copy_to_host(dst, dense, non_blocking);
  } else {
    const at::Tensor same = empty_dense(src, c10::kCPU);
    transfer(same, src, orMemcpyDeviceToHost, false);
    dst.copy_(same);
  }
}
// LITERALINCLUDE END: copy-to-host

// LITERALINCLUDE START: copy-operator
// schema: aten::_copy_from(Tensor self, Tensor dst, bool non_blocking=False) -> Tensor
at::Tensor _copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  TORCH_CHECK(self.layout() == at::kStrided && dst.layout() == at::kStrided,
              "openreg: only strided tensors can be copied, got ", self.layout(), " to ", dst.layout());
  at::assert_no_internal_overlap(dst);
  at::assert_no_partial_overlap(dst, self);
  const c10::MaybeOwned<at::Tensor> expanded = at::expand_inplace(dst, self);
  const at::Tensor& src = *expanded;
  if (dst.numel() == 0 || self.is_same(dst)) {
    return dst;
  }
  const bool on_devices = src.is_privateuseone() && dst.is_privateuseone();
  TORCH_CHECK_NOT_IMPLEMENTED(on_devices || src.is_cpu() || dst.is_cpu(), "openreg: a copy from ", src.device(), " to ",
                              dst.device(), " is not supported: copy through the CPU");
  check_has_memory(src);
  check_has_memory(dst);
  if (on_devices) {
    src.device() == dst.device() ? copy_within_device(dst, src) : copy_between_devices(dst, src);
  } else {
    src.is_cpu() ? copy_to_device(dst, src, non_blocking) : copy_to_host(dst, src, non_blocking);
  }
  return dst;
}
// LITERALINCLUDE END: copy-operator

// LITERALINCLUDE START: copy-resizing
// schema: aten::_copy_from_and_resize(Tensor self, Tensor dst) -> Tensor
at::Tensor _copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  return openreg::_copy_from(self, dst, /*non_blocking=*/false);  // at:: may have one, too
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", _copy_from);
  m.impl("_copy_from_and_resize", _copy_from_and_resize);
}
// LITERALINCLUDE END: copy-resizing

// LITERALINCLUDE START: copy-lazy-bits
// A conjugated (or negated) tensor stores the original values and a bit. PyTorch's fallback for that bit materializes
// the argument with a copy before it calls the operator, which for the copy itself would recurse forever. So the copy
// operators fall through with the bit set, and _copy_from handles it above.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
// LITERALINCLUDE END: copy-lazy-bits

}  // namespace
}  // namespace openreg
