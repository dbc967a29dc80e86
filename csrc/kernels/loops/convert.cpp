// Converts values with one loop for each pair of dtypes. Called inside kernels, on any thread.
#include "kernels/loops/convert.h"

#include <ATen/Dispatch_v2.h>
#include <c10/util/Load.h>
#include <c10/util/TypeCast.h>

#include "kernels/loops/rows.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: convert-loops
// Calls the function with a value of the dtype's C++ type.
template <class Function>
void with_type(at::ScalarType dtype, const Function& function) {
  AT_DISPATCH_V2(dtype, "convert", AT_WRAP([&] { function(scalar_t{}); }), AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
                 at::kComplexHalf, at::kHalf, at::kBFloat16, at::kBool, AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
}

template <class From, class To>
void convert_values(const char* in, int64_t in_stride, char* out, int64_t out_stride, int64_t count) {
  if (in_stride == sizeof(From) && out_stride == sizeof(To)) {
    OPENREG_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) {
      reinterpret_cast<To*>(out)[i] = c10::convert<To>(c10::load(reinterpret_cast<const From*>(in) + i));
    }
  } else {
    for (int64_t i = 0; i < count; ++i, in += in_stride, out += out_stride) {
      *reinterpret_cast<To*>(out) = c10::convert<To>(c10::load(reinterpret_cast<const From*>(in)));
    }
  }
}
// LITERALINCLUDE END: convert-loops

}  // namespace

// LITERALINCLUDE START: convert-choice
bool is_convertible(at::ScalarType dtype) {
  return dtype <= at::ScalarType::Bool || dtype == at::kBFloat16 || dtype == at::kUInt16 || dtype == at::kUInt32 ||
         dtype == at::kUInt64;
}

void convert(const Values& in, const Values& out, int64_t count) {
  with_type(in.dtype, [&](auto from) {
    with_type(out.dtype, [&](auto to) {
      convert_values<decltype(from), decltype(to)>(in.first, in.stride, out.first, out.stride, count);
    });
  });
}
// LITERALINCLUDE END: convert-choice

}  // namespace openreg
