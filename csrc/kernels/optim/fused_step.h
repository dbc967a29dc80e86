// One step of an optimizer for all parameters of a device: the checks, the table of addresses, and the one kernel that
// processes it. The update of each element is a rule (fused_optimizers.cpp).
//
// For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <c10/util/irange.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/host_view.h"
#include "kernels/launch.h"
#include "kernels/library/library_scope.h"
#include "kernels/loops/rows.h"

namespace openreg {

// LITERALINCLUDE START: step-table
// A parameter, its gradient, up to three parts of its state, and its number of steps.
struct StepTensor {
  size_t numel;
  void* param;
  void* grad;
  std::array<void*, 3> state;
  const float* step;
};

// The kernel's arguments.
struct StepTable {
  at::ScalarType dtype;
  std::vector<StepTensor> tensors;
  double lr = 0;
  at::Tensor lr_on_device;  // Replaces lr, if defined.
  const float* grad_scale = nullptr;
  const float* found_inf = nullptr;
};
// LITERALINCLUDE END: step-table

// LITERALINCLUDE START: step-kernel
// Applies a rule to one element of a parameter, the T at param, and writes back the results.
template <class Math, class T, class... State>
void update_number(T* param, Math number, Math grad, const auto& rule, std::pair<State*, Math>... state) {
  rule(number, grad, state.second...);
  *param = static_cast<T>(number);
  ((*state.first = static_cast<T>(state.second)), ...);
}

template <class T, class... State>
OPENREG_WIDE void update_tensor(size_t numel, T* param, T* grad, const float* grad_scale, bool maximize,
                                const auto& rule, State*... state) {
  using Math = at::opmath_type<T>;  // float for 16-bit dtypes
  if (grad_scale) {
    const Math scale = *grad_scale;
    OPENREG_INDEPENDENT
    for (size_t i = 0; i < numel; ++i) grad[i] = static_cast<T>(grad[i] / scale);
  }
  const Math sign = maximize ? -1 : 1;
  OPENREG_INDEPENDENT
  for (size_t i = 0; i < numel; ++i) {
    update_number<Math>(param + i, param[i], sign * grad[i], rule, std::pair<State*, Math>(state + i, state[i])...);
  }
}

template <class T, size_t... I>
void update_tensor(const StepTensor& tensor, const float* grad_scale, bool maximize, const auto& rule,
                   std::index_sequence<I...>) {
  update_tensor(tensor.numel, static_cast<T*>(tensor.param), static_cast<T*>(tensor.grad), grad_scale, maximize, rule,
                static_cast<T*>(tensor.state[I])...);
}

// Skips a step, since a gradient has overflowed. torch.optim passes buffers without values to a first step, whether it
// is skipped or not, and says of the next that it is not the first: it must find zeros.
void skip_step(const StepTable& table, const auto& rule) {
  if constexpr (requires { rule.is_first_step; }) {
    if (!rule.is_first_step) return;
    for (const StepTensor& tensor : table.tensors) {
      if (tensor.numel > 0) std::memset(tensor.state[0], 0, tensor.numel * c10::elementSize(table.dtype));
    }
  }
}

template <class Rule>
void run_step(const StepTable& table, const Rule& rule) {
  if (table.found_inf && *table.found_inf != 0) {  // a GradScaler adds those of all devices
    skip_step(table, rule);
    return;
  }
  const double lr = table.lr_on_device.defined() ? table.lr_on_device.item<double>() : table.lr;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, table.dtype, Rule::kName, [&] {
    for (const StepTensor& tensor : table.tensors) {
      const auto with_numbers = rule.template at<at::opmath_type<scalar_t>>(lr, tensor.step ? *tensor.step : 0);
      update_tensor<scalar_t>(tensor, table.grad_scale, rule.maximize, with_numbers,
                              std::make_index_sequence<Rule::kState>());
    }
  });
}
// LITERALINCLUDE END: step-kernel

// LITERALINCLUDE START: step-arguments
// Builds the table. Everything is checked here: a queued kernel has no caller to report to. The kernel traverses a
// parameter, its gradient and its state in one order, so all must have the same memory layout.
class StepArguments {
 public:
  // params: at least one, all on one device and of one dtype, as PyTorch's optimizers group them.
  StepArguments(const char* name, at::TensorList params, at::TensorList grads) : name_(name), params_(params) {
    table_.dtype = params[0].scalar_type();
    TORCH_CHECK(!device().is_cpu(), name, ": expected all parameters to be on the device of grads, but one is on cpu");
    TORCH_CHECK(table_.dtype == at::kFloat || table_.dtype == at::kDouble || table_.dtype == at::kHalf ||
                    table_.dtype == at::kBFloat16,
                name, ": expected parameters of float32, float64, float16 or bfloat16, but got ", table_.dtype);
    for (const at::Tensor& param : params) {
      TORCH_CHECK(param.device() == device() && param.scalar_type() == table_.dtype, name,
                  ": expected all parameters to be ", table_.dtype, " on ", device(), ", but one is ",
                  param.scalar_type(), " on ", param.device(), ": call it once for each device and dtype");
      TORCH_CHECK(param.is_non_overlapping_and_dense() && !param.is_neg(), name, ": a parameter of sizes ",
                  param.sizes(), " and strides ", param.strides(),
                  " is a view with gaps, overlaps or a lazy minus: make it contiguous()");
      table_.tensors.push_back({static_cast<size_t>(param.numel()), address(param), nullptr, {}, nullptr});
    }
    check_like_params("grads", grads);
    for (const auto i : c10::irange(grads.size())) table_.tensors[i].grad = address(grads[i]);
  }

  void add_state(const char* list, at::TensorList tensors) {
    check_like_params(list, tensors);
    for (const auto i : c10::irange(tensors.size())) table_.tensors[i].state[states_] = address(tensors[i]);
    ++states_;
  }

  void add_steps(at::TensorList state_steps) {
    check_count("state_steps", state_steps);
    for (const auto i : c10::irange(state_steps.size())) {
      table_.tensors[i].step = number("state_steps", state_steps[i]);
    }
  }

  // What a GradScaler passes to an optimizer that unscales gradients and skips steps itself.
  void add_scaler(const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf) {
    if (grad_scale) table_.grad_scale = number("grad_scale", *grad_scale);
    if (found_inf) table_.found_inf = number("found_inf", *found_inf);
  }

  void add_rate(double lr) { table_.lr = lr; }
  // A rate on the device is read when the kernel runs.
  void add_rate(const at::Tensor& lr) {
    TORCH_CHECK(lr.numel() == 1, name_, ": expected a learning rate of one element, but it has ", lr.numel());
    TORCH_CHECK(lr.is_cpu() || lr.device() == device(), name_, ": expected the learning rate on ", device(),
                " or the CPU, but it is on ", lr.device());
    if (lr.is_cpu()) {
      table_.lr = lr.item<double>();
    } else {
      table_.lr_on_device = host_view(lr);
    }
  }

  // Queues one kernel for all parameters. To be called last.
  template <class Rule>
  void enqueue(Rule rule) {
    openreg::launch(name_, device().index(), bytes_, [table = std::move(table_), rule]() {
      const LibraryScope scope;
      run_step(table, rule);
    });
  }

 private:
  c10::Device device() const { return params_[0].device(); }

  void check_count(const char* list, at::TensorList tensors) const {
    TORCH_CHECK(tensors.size() == params_.size(), name_, ": expected ", params_.size(), " ", list,
                ", one for each parameter, but got ", tensors.size());
  }

  // Whether two tensors of the same sizes have their elements in the same order. A dimension of size 1 has any stride.
  static bool has_same_order(const at::Tensor& a, const at::Tensor& b) {
    for (const auto dim : c10::irange(a.dim())) {
      if (a.size(dim) != 1 && a.stride(dim) != b.stride(dim)) return false;
    }
    return true;
  }

  void check_like_params(const char* list, at::TensorList tensors) const {
    check_count(list, tensors);
    for (const auto i : c10::irange(tensors.size())) {
      const at::Tensor &tensor = tensors[i], &param = params_[i];
      TORCH_CHECK(tensor.device() == param.device() && tensor.scalar_type() == param.scalar_type() &&
                      tensor.sizes() == param.sizes() && has_same_order(tensor, param) && !tensor.is_neg(),
                  name_, ": expected ", list, "[", i, "] like its parameter (", param.scalar_type(), " on ",
                  param.device(), ", sizes ", param.sizes(), ", strides ", param.strides(), "), but it is ",
                  tensor.scalar_type(), " on ", tensor.device(), ", sizes ", tensor.sizes(), ", strides ",
                  tensor.strides());
    }
  }

  const float* number(const char* argument, const at::Tensor& tensor) {
    TORCH_CHECK(tensor.device() == device() && tensor.scalar_type() == at::kFloat && tensor.numel() == 1, name_,
                ": expected ", argument, " to be one float32 on ", device(), ", but got ", tensor.scalar_type(), " on ",
                tensor.device(), " of sizes ", tensor.sizes());
    return static_cast<const float*>(address(tensor));
  }

  void* address(const at::Tensor& tensor) {
    bytes_ += tensor.nbytes();
    return tensor.nbytes() == 0 ? nullptr : host_alias(tensor.data_ptr(), tensor.nbytes());
  }

  const char* name_;
  at::TensorList params_;
  StepTable table_;
  size_t states_ = 0;
  size_t bytes_ = 0;
};
// LITERALINCLUDE END: step-arguments

}  // namespace openreg
