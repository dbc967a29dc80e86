// sum through sum_stub: a reduction. Called on any thread, with or without the GIL; the kernels run on the device's
// stream.
#include <ATen/native/ReduceOps.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum_native.h>
#include <ATen/ops/sum_ops.h>

#include "aten/kernel_source.h"
#include "aten/structured/structured.h"
#include "native/dtypes.h"
#include "native/geometry.h"
#include "native/registration.h"
#include "runtime/properties.h"
#include "runtime/storage.h"

namespace openreg::native {
namespace {

// LITERALINCLUDE START: native-sum-plan
// In the iterator of a reduction the output has stride 0 in each reduced dimension.
struct Reduction {
  c10::DeviceIndex device;
  at::ScalarType dtype;
  at::TensorOptions partial_options;  // compute_t
  Geometry kept;
  Geometry reduced;
  const void* out;
  const void* in;

  explicit Reduction(const at::TensorIteratorBase& iter)
      : device(iter.device(0).index()),
        dtype(iter.dtype(1)),
        partial_options(at::TensorOptions(iter.device(0))
                            .dtype(compute_bytes(dtype) == sizeof(float) && dtype != at::kInt ? at::kFloat : dtype)),
        out(iter.data_ptr(0)),
        in(iter.data_ptr(1)) {
    for (const int operand : {0, 1}) check_has_memory(iter.tensor_base(operand));
    for (int dim = 0; dim < iter.ndim(); ++dim) {
      (iter.is_dim_reduced(dim) ? reduced : kept).add_dimension(iter, dim);
    }
  }

  const Function& function(const char* name) const {
    return find_function(device, "loops/sum.cl", name, options_for(dtype, fits_int(kept, reduced)));
  }
};
// LITERALINCLUDE END: native-sum-plan

// LITERALINCLUDE START: native-sum-launch
// The number of groups that share the inputs of one output: enough to keep the device busy, each with work for all its
// items.
int64_t parts_of(const Reduction& sum, unsigned group_size) {
  const int64_t wanted = 4LL * std::max(device_properties(sum.device).compute_units, 1) / sum.kept.count;
  const int64_t useful = sum.reduced.count / (8LL * group_size);
  return std::max<int64_t>(std::min(wanted, useful), 1);
}

void launch_items(const Reduction& sum) {
  const Function& function = sum.function("sum_items");
  launch_function(sum.device, function, config_for(function, sum.kept.count), sum.out, sum.in, sum.kept, sum.reduced);
}

void launch_groups(const Reduction& sum) {
  const Function& function = sum.function("sum_parts");
  const unsigned size = group_size_for(function, sum.reduced.count);
  const int64_t parts = parts_of(sum, size);
  const Local scratch{size * compute_bytes(sum.dtype)};
  const auto groups = static_cast<unsigned>(sum.kept.count * parts);
  if (parts == 1) {
    launch_function(sum.device, function, {{groups, 1, 1}, {size, 1, 1}}, sum.out, nullptr, sum.in, scratch, parts,
                    sum.kept, sum.reduced);
    return;
  }
  // Freed when this function returns, which in stream order is after the second launch.
  const at::Tensor partial = at::empty({groups}, sum.partial_options);
  launch_function(sum.device, function, {{groups, 1, 1}, {size, 1, 1}}, sum.out, partial, sum.in, scratch, parts,
                  sum.kept, sum.reduced);
  const Function& second = sum.function("sum_partials");
  const unsigned second_size = group_size_for(second, parts);
  launch_function(sum.device, second, {{static_cast<unsigned>(sum.kept.count), 1, 1}, {second_size, 1, 1}}, sum.out,
                  partial, Local{second_size * compute_bytes(sum.dtype)}, parts, sum.kept);
}
// LITERALINCLUDE END: native-sum-launch

// LITERALINCLUDE START: native-sum-stub
at::native::reduce_fn sum_before = nullptr;

bool takes_sum(const at::TensorIteratorBase& iter) {
  return iter.dtype(0) == iter.dtype(1) && is_native(iter.dtype(0), kNumbers, iter.device(0).index());
}

// Whether adjacent outputs have adjacent inputs, as in a sum over the rows of a matrix.
bool is_across(const Reduction& sum) {
  return sum.kept.dimensions > 0 && sum.kept.strides[1][0] < sum.reduced.strides[1][0];
}

// Many outputs, or few inputs for each: a work-item for each output. Otherwise a group, or several. If adjacent outputs
// have adjacent inputs, fewer outputs count as many, since the memory accesses are then coalesced.
void sum_kernel(at::TensorIterator& iter) {
  if (!takes_sum(iter)) {
    call_stub_before("sum", sum_before, iter.dtype(0), iter);  // NOT PROVEN: in PyTorch, only sum itself calls the stub
    return;  // NOT PROVEN: as above
  }
  constexpr int64_t kFewInputs = 32;
  const Reduction sum(iter);
  const int64_t many_outputs = is_across(sum) ? 1 << 10 : 1 << 16;
  if (sum.reduced.count <= kFewInputs || sum.kept.count >= many_outputs) {
    launch_items(sum);
  } else {
    launch_groups(sum);
  }
}
// LITERALINCLUDE END: native-sum-stub

// LITERALINCLUDE START: native-sum-operator
// Integers are summed as int64: PyTorch converts the inputs first, with an operator of its own.
struct Sum {
  using Meta = at::native::structured_sum_out;
  static constexpr auto kOutputs = 1;

  static bool is_native(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
    return are_native({{&self}, self.scalar_type()}, kNumbers) &&
           dtype.value_or(self.scalar_type()) == self.scalar_type() &&
           (dtype.has_value() || self.scalar_type() != at::kInt);
  }
  static at::Tensor functional(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                               std::optional<at::ScalarType> dtype) {
    return is_native(self, dtype) ? openreg::functional<Sum>(self, dim, keepdim, dtype)
                                  : Next<at::_ops::sum_dim_IntList>::call(self, dim, keepdim, dtype);
  }
  static at::Tensor& out(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                         std::optional<at::ScalarType> dtype, at::Tensor& out) {
    const bool one_dtype = out.scalar_type() == self.scalar_type() && out.device() == self.device();
    if (!one_dtype || !is_native(self, dtype ? dtype : out.scalar_type())) {
      return Next<at::_ops::sum_IntList_out>::call(self, dim, keepdim, dtype, out);
    }
    openreg::out_variant<Sum>({&out}, self, dim, keepdim, dtype);
    return out;
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const Replacing quiet;
  sum_before = replace_stub(at::native::sum_stub, &sum_kernel);
  replace_kernel<at::_ops::sum_dim_IntList>(m, Sum::functional);
  replace_kernel<at::_ops::sum_IntList_out>(m, Sum::out);
  declare_native("aten::sum.dim_IntList", kNumbers);
  declare_native("aten::sum.IntList_out", kNumbers);
}
// LITERALINCLUDE END: native-sum-operator

}  // namespace
}  // namespace openreg::native
