// mm and addmm: structured operators, whose computation is a launch. Called on any thread, with or without the GIL; the
// kernel runs on the device's stream.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/mm_ops.h>

#include "aten/kernel_source.h"
#include "aten/structured/structured.h"
#include "native/dtypes.h"
#include "native/registration.h"
#include "runtime/properties.h"
#include "runtime/storage.h"

namespace openreg::native {
namespace {

// LITERALINCLUDE START: native-product-launch
// The struct of product.cl.
struct Matrices {
  int64_t rows, columns, inner;
  int64_t a[2], b[2], out[2], added[2];
};

void set_strides(int64_t (&strides)[2], const at::Tensor& matrix) {
  strides[0] = matrix.stride(0);
  strides[1] = matrix.stride(1);
}

// The side of a group's tile: 16 work-items, or fewer if the device limits groups to fewer.
int tile_for(c10::DeviceIndex device) {
  int tile = 16;
  while (tile > 1 && tile * tile > device_properties(device).max_group_size) tile /= 2;
  return tile;
}

// The kernel, compiled for a tile that it can have: one that needs many registers has smaller groups than the device.
const Function& function_for(c10::DeviceIndex device, at::ScalarType dtype, int* tile) {
  for (*tile = tile_for(device);; *tile /= 2) {
    const Function& function = find_function(device, "linalg/product.cl", "matrix_product",
                                             options_for(dtype, false) + " -DTILE=" + std::to_string(*tile));
    if (*tile == 1 || static_cast<size_t>(*tile * *tile) <= function.attributes.max_group_size) return function;
  }
}

// Requires: no factor overlaps the output. `added` is undefined, or has the sizes of the output.
void launch_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& added,
                    const at::Scalar& alpha, const at::Scalar& beta) {
  if (out.numel() == 0) return;
  // With alpha 0 the factors are not read, not even a NaN.
  Matrices matrices{a.size(0), b.size(1), alpha.toDouble() == 0 ? 0 : a.size(1), {}, {}, {}, {}};
  set_strides(matrices.a, a);
  set_strides(matrices.b, b);
  set_strides(matrices.out, out);
  if (added.defined()) set_strides(matrices.added, added);
  for (const at::Tensor* tensor : {&out, &a, &b}) check_has_memory(*tensor);

  const c10::DeviceIndex device = out.device().index();
  int tile = 0;
  const Function& function = function_for(device, out.scalar_type(), &tile);
  const auto size = static_cast<unsigned>(tile);
  const auto tiles = [tile](int64_t elements) { return static_cast<unsigned>((elements + tile - 1) / tile); };
  const Local local{size * size * compute_bytes(out.scalar_type())};
  launch_function(device, function, {{tiles(matrices.rows), tiles(matrices.columns), 1}, {size, size, 1}}, out, a, b,
                  added.defined() ? added.const_data_ptr() : nullptr, number_of(alpha, out.scalar_type()),
                  number_of(beta, out.scalar_type()), local, local, matrices);
}
// LITERALINCLUDE END: native-product-launch

// LITERALINCLUDE START: native-product-kernel
// A group reads factors after another one has begun to write: a factor that overlaps the output is copied first.
at::Tensor apart(const at::Tensor& factor, const at::Tensor& out) {
  return at::get_overlap_status(factor, out) == at::MemOverlapStatus::No ? factor : factor.clone();
}

bool are_native_factors(std::initializer_list<const at::Tensor*> tensors) {
  const at::Tensor& first = **tensors.begin();
  return are_native({tensors, first.scalar_type()}, kFloats) &&
         std::ranges::all_of(tensors, [](const at::Tensor* tensor) { return tensor->is_privateuseone(); });
}

// PyTorch's classes check the sizes in `meta`; openreg::functional and the others call it, and then enqueue.
struct Mm {
  using Meta = at::meta::structured_mm;
  static constexpr auto kName = "mm";
  static constexpr auto kOutputs = 1;
  static constexpr auto kOnOneDevice = std::array{"self", "mat2"};
  static constexpr bool kCopiesOverlap = true;

  static void enqueue(const Outputs& outputs, const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor& out = outputs.get(0);
    launch_product(out, apart(a, out), apart(b, out), {}, 1, 0);
  }

  static at::Tensor functional(const at::Tensor& self, const at::Tensor& mat2) {
    return are_native_factors({&self, &mat2}) ? openreg::functional<Mm>(self, mat2)
                                              : Next<at::_ops::mm>::call(self, mat2);
  }
  static at::Tensor& out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
    if (!are_native_factors({&out, &self, &mat2})) return Next<at::_ops::mm_out>::call(self, mat2, out);
    openreg::out_variant<Mm>({&out}, self, mat2);
    return out;
  }
};
// LITERALINCLUDE END: native-product-kernel

// LITERALINCLUDE START: native-product-addmm
struct Addmm {
  using Meta = at::meta::structured_addmm;
  static constexpr auto kName = "addmm";
  static constexpr auto kOutputs = 1;
  static constexpr auto kOnOneDevice = std::array{"self", "mat1", "mat2"};
  static constexpr bool kCopiesOverlap = true;

  static void enqueue(const Outputs& outputs, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                      const at::Scalar& beta, const at::Scalar& alpha) {
    const at::Tensor& out = outputs.get(0);
    const at::Tensor wide = self.expand(out.sizes());
    // A work-item reads its addend before it writes: the addend may be the output itself, element by element, only.
    const bool is_output = wide.data_ptr() == out.data_ptr() && wide.strides() == out.strides();
    // With beta 0 it is ignored, even NaN.
    const at::Tensor added = beta.toDouble() == 0 ? at::Tensor() : is_output ? wide : apart(wide, out);
    launch_product(out, apart(a, out), apart(b, out), added, alpha, beta);
  }

  static at::Tensor functional(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                               const at::Scalar& beta, const at::Scalar& alpha) {
    return are_native_factors({&self, &mat1, &mat2}) ? openreg::functional<Addmm>(self, mat1, mat2, beta, alpha)
                                                     : Next<at::_ops::addmm>::call(self, mat1, mat2, beta, alpha);
  }
  static at::Tensor& out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                         const at::Scalar& alpha, at::Tensor& out) {
    if (!are_native_factors({&out, &self, &mat1, &mat2})) {
      return Next<at::_ops::addmm_out>::call(self, mat1, mat2, beta, alpha, out);
    }
    openreg::out_variant<Addmm>({&out}, self, mat1, mat2, beta, alpha);
    return out;
  }
  static at::Tensor& in_place(at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                              const at::Scalar& alpha) {
    if (!are_native_factors({&self, &mat1, &mat2})) {
      return Next<at::_ops::addmm_>::call(self, mat1, mat2, beta, alpha);
    }
    openreg::in_place<Addmm>(self, mat1, mat2, beta, alpha);
    return self;
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const Replacing quiet;
  replace_kernel<at::_ops::mm>(m, Mm::functional);
  replace_kernel<at::_ops::mm_out>(m, Mm::out);
  replace_kernel<at::_ops::addmm>(m, Addmm::functional);
  replace_kernel<at::_ops::addmm_out>(m, Addmm::out);
  replace_kernel<at::_ops::addmm_>(m, Addmm::in_place);
  for (const char* const name : {"aten::mm", "aten::mm.out", "aten::addmm", "aten::addmm.out", "aten::addmm_"}) {
    declare_native(name, kFloats);
  }
}
// LITERALINCLUDE END: native-product-addmm

}  // namespace
}  // namespace openreg::native
