// Converts values from one dtype to another, many at a time. For kernel files only: see Note [Host code as kernels].
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace openreg {

// LITERALINCLUDE START: convert-interface
// Values in memory: their dtype, the address of the first one, and the bytes from one to the next.
struct Values {
  at::ScalarType dtype;
  char* first;
  int64_t stride;
};

// Whether convert supports the dtype. To be checked before the launch: in a kernel it is too late.
bool is_convertible(at::ScalarType dtype);

// out[i] = in[i] for count values, as PyTorch casts them everywhere (c10/util/TypeCast.h). The two do not overlap.
void convert(const Values& in, const Values& out, int64_t count);
// LITERALINCLUDE END: convert-interface

}  // namespace openreg
