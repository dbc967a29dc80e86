// fill_ and zero_ through fill_stub, for all dtypes, since a fill only repeats bytes. Called on any thread, with or
// without the GIL; the fill runs on the device's stream.
#include <ATen/native/Fill.h>
#include <ATen/native/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fill_native.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/zero_ops.h>

#include <algorithm>
#include <cstring>

#include "aten/kernel_source.h"
#include "driver/openreg_extended.h"
#include "native/dtypes.h"
#include "native/geometry.h"
#include "native/registration.h"
#include "runtime/driver_call.h"
#include "runtime/storage.h"

namespace openreg::native {
namespace {

// LITERALINCLUDE START: native-fill-element
// Converts the number to one element on the CPU, which also raises if the dtype cannot hold it: too large a number is
// an error for several elements, but not for a single one.
Number element_of(const at::Scalar& value, at::ScalarType dtype, int64_t count) {
  const at::Tensor filled = at::empty({std::min<int64_t>(count, 2)}, at::TensorOptions(at::kCPU).dtype(dtype));
  filled.fill_(value);
  Number element;
  element.bytes = filled.itemsize();
  if (count > 0) std::memcpy(element.value.data(), filled.const_data_ptr(), element.bytes);
  return element;
}
// LITERALINCLUDE END: native-fill-element

// LITERALINCLUDE START: native-fill-launch
// Returns false if the driver has no such function, or the device does not support it.
bool fill_by_driver(void* out, const Number& element, int64_t count, orStream_t stream) {
  if (orFillAsync == nullptr) {
    return false;  // NOT PROVEN: the simulated device has it
  }
  const DriverCall call("orFillAsync");
  const orError_t error = orFillAsync(out, element.value.data(), element.bytes, static_cast<size_t>(count), stream);
  if (error == orErrorNotSupported) {
    static_cast<void>(orGetLastError());  // NOT PROVEN: as above
    return false;                         // NOT PROVEN: as above
  }
  check(error);
  return true;
}

void fill_kernel(at::TensorIterator& iter, const at::Scalar& value) {
  const c10::DeviceIndex device = iter.device(0).index();
  const Number element = element_of(value, iter.dtype(0), iter.numel());
  if (iter.numel() == 0) return;
  void* const out = iter.data_ptr(0);
  check_has_memory(iter.tensor_base(0));
  Geometry geometry;
  for (int dim = 0; dim < iter.ndim(); ++dim) geometry.add_dimension(iter, dim);
  const bool is_dense = iter.ndim() <= 1 && (geometry.count == 1 || geometry.strides[0][0] == 1);
  if (is_dense && fill_by_driver(out, element, geometry.count, current_stream_handle(device))) return;
  // The prelude needs a dtype, which a fill does not use.
  const std::string options =
      options_for(at::kInt, fits_int(geometry)) + " -DPATTERN_BYTES=" + std::to_string(element.bytes);
  const Function& function = find_function(device, "loops/fill.cl", "fill_strided", options);
  launch_function(device, function, config_for(function, geometry.count), static_cast<const void*>(out), element,
                  geometry);
}
// LITERALINCLUDE END: native-fill-launch

// LITERALINCLUDE START: native-fill-operators
constexpr std::array kFilled{at::kFloat,         at::kHalf,          at::kBFloat16,        at::kDouble,
                             at::kInt,           at::kLong,          at::kShort,           at::kChar,
                             at::kByte,          at::kBool,          at::kUInt16,          at::kUInt32,
                             at::kUInt64,        at::kComplexFloat,  at::kComplexDouble,   at::kComplexHalf,
                             at::kFloat8_e5m2,   at::kFloat8_e4m3fn, at::kFloat8_e5m2fnuz, at::kFloat8_e4m3fnuz,
                             at::kFloat8_e8m0fnu};

bool is_filled(const at::Tensor& self) { return std::ranges::find(kFilled, self.scalar_type()) != kFilled.end(); }

// schema: aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)
at::Tensor& fill(at::Tensor& self, const at::Scalar& value) {
  return is_filled(self) ? at::native::fill_(self, value) : Next<at::_ops::fill__Scalar>::call(self, value);
}

// schema: aten::zero_(Tensor(a!) self) -> Tensor(a!)
at::Tensor& zero(at::Tensor& self) {
  return is_filled(self) ? at::native::fill_(self, 0) : Next<at::_ops::zero_>::call(self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const Replacing quiet;
  static_cast<void>(replace_stub(at::native::fill_stub, &fill_kernel));
  replace_kernel<at::_ops::fill__Scalar>(m, fill);
  replace_kernel<at::_ops::zero_>(m, zero);
  declare_native("aten::fill_.Scalar", kFilled);
  declare_native("aten::zero_", kFilled);
}
// LITERALINCLUDE END: native-fill-operators

}  // namespace
}  // namespace openreg::native
