// Optimizers with fused=True: the update rule of each element of a parameter, and the operators.
//
// The formulas are those of torch/optim, where each has a reference in Python, such as `_single_tensor_sgd`.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/optim/fused_step.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: fused-sgd
// Without weight decay an infinite parameter, such as the bias of a class that is excluded, must stay: 0 times infinity
// is NaN.
template <class Math>
Math with_decay(Math grad, Math decay, Math param) {
  return decay == 0 ? grad : grad + decay * param;
}

struct Sgd {
  static constexpr auto kName = "_fused_sgd_";
  static constexpr size_t kState = 0;
  double weight_decay;
  bool maximize;

  // The rule, with its hyperparameters in the precision of the computation.
  template <class Math>
  auto at(double lr, double) const {
    return [lr = static_cast<Math>(lr), decay = static_cast<Math>(weight_decay)](Math& param, Math grad) {
      param -= lr * with_decay(grad, decay, param);
    };
  }
};

struct SgdWithMomentum {
  static constexpr auto kName = Sgd::kName;
  static constexpr size_t kState = 1;
  double weight_decay, momentum, dampening;
  bool nesterov, maximize, is_first_step;

  template <class Math>
  auto at(double lr, double) const {
    return [*this, lr = static_cast<Math>(lr), decay = static_cast<Math>(weight_decay),
            momentum = static_cast<Math>(momentum),
            undamped = static_cast<Math>(1 - dampening)](Math& param, Math grad, Math& buffer) {
      grad = with_decay(grad, decay, param);
      // In the first step the buffer holds nothing yet.
      buffer = is_first_step ? grad : momentum * buffer + undamped * grad;
      param -= lr * (nesterov ? grad + momentum * buffer : buffer);
    };
  }
};
// LITERALINCLUDE END: fused-sgd

// LITERALINCLUDE START: fused-adam
// kDecoupled: AdamW, whose weight decay does not enter the averages.
template <bool kDecoupled>
struct Adam {
  static constexpr auto kName = kDecoupled ? "_fused_adamw_" : "_fused_adam_";
  static constexpr size_t kState = 2;
  double beta1, beta2, weight_decay, eps;
  bool maximize;

  template <class Math>
  struct Numbers {
    Math kept, decay, beta2, rest1, rest2, eps, step_size, square_correction;

    void averages(Math& param, Math grad, Math& average, Math& square) const {
      if constexpr (kDecoupled) {
        param *= kept;
      } else {
        grad = with_decay(grad, decay, param);
      }
      average += rest1 * (grad - average);
      square = beta2 * square + rest2 * grad * grad;
    }
    void go(Math& param, Math average, Math square) const {
      param -= step_size * average / (std::sqrt(square) / square_correction + eps);
    }
  };

  // Both averages start at zero, and the corrections compensate for it. In double, since 1 - 0.999 has only four digits
  // in float. After a step that was skipped on several devices, torch.optim has subtracted their number from the count.
  template <class Math>
  Numbers<Math> numbers(double lr, double counted) const {
    const double step = std::max(counted, 1.0);
    const auto as_math = [](double number) { return static_cast<Math>(number); };
    return {.kept = as_math(1 - lr * weight_decay),
            .decay = as_math(weight_decay),
            .beta2 = as_math(beta2),
            .rest1 = as_math(1 - beta1),
            .rest2 = as_math(1 - beta2),
            .eps = as_math(eps),
            .step_size = as_math(lr / (1 - std::pow(beta1, step))),
            .square_correction = as_math(std::sqrt(1 - std::pow(beta2, step)))};
  }

  template <class Math>
  auto at(double lr, double step) const {
    return [numbers = numbers<Math>(lr, step)](Math& param, Math grad, Math& average, Math& square) {
      numbers.averages(param, grad, average, square);
      numbers.go(param, average, square);
    };
  }
};

// Adam with the running maximum of the second average.
template <bool kDecoupled>
struct Amsgrad : Adam<kDecoupled> {
  static constexpr size_t kState = 3;

  template <class Math>
  auto at(double lr, double step) const {
    return [numbers = this->template numbers<Math>(lr, step)](Math& param, Math grad, Math& average, Math& square,
                                                              Math& largest) {
      numbers.averages(param, grad, average, square);
      largest = square <= largest || std::isnan(largest) ? largest : square;  // NaN counts as the largest
      numbers.go(param, average, largest);
    };
  }
};
// LITERALINCLUDE END: fused-adam

// LITERALINCLUDE START: fused-adagrad
struct Adagrad {
  static constexpr auto kName = "_fused_adagrad_";
  static constexpr size_t kState = 1;
  double lr_decay, weight_decay, eps;
  bool maximize;

  template <class Math>
  auto at(double lr, double step) const {
    return [decayed = static_cast<Math>(lr / (1 + (std::max(step, 1.0) - 1) * lr_decay)),
            decay = static_cast<Math>(weight_decay), eps = static_cast<Math>(eps)](Math& param, Math grad, Math& sum) {
      grad = with_decay(grad, decay, param);
      sum += grad * grad;
      param -= decayed * grad / (std::sqrt(sum) + eps);
    };
  }
};
// LITERALINCLUDE END: fused-adagrad

// LITERALINCLUDE START: fused-operators
// Rate: double, or const at::Tensor&. A rate on the device also causes a call with empty lists, which does nothing.
template <class Rate>
void fused_sgd(at::TensorList params, at::TensorList grads, at::TensorList momentum_buffers, double weight_decay,
               double momentum, Rate lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
               const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf) {
  if (params.empty()) return;
  StepArguments step(Sgd::kName, params, grads);
  step.add_rate(lr);
  step.add_scaler(grad_scale, found_inf);
  if (momentum == 0) {
    step.enqueue(Sgd{weight_decay, maximize});
  } else {
    step.add_state("momentum_buffer_list", momentum_buffers);
    step.enqueue(SgdWithMomentum{weight_decay, momentum, dampening, nesterov, maximize, is_first_step});
  }
}

template <bool kDecoupled, class Rate>
void fused_adam(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
                at::TensorList max_exp_avg_sqs, at::TensorList state_steps, Rate lr, double beta1, double beta2,
                double weight_decay, double eps, bool amsgrad, bool maximize,
                const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf) {
  if (params.empty()) return;
  const Adam<kDecoupled> rule{beta1, beta2, weight_decay, eps, maximize};
  StepArguments step(rule.kName, params, grads);
  step.add_state("exp_avgs", exp_avgs);
  step.add_state("exp_avg_sqs", exp_avg_sqs);
  step.add_steps(state_steps);
  step.add_rate(lr);
  step.add_scaler(grad_scale, found_inf);
  if (amsgrad) {
    step.add_state("max_exp_avg_sqs", max_exp_avg_sqs);
    step.enqueue(Amsgrad<kDecoupled>{rule});
  } else {
    step.enqueue(rule);
  }
}

template <class Rate>
void fused_adagrad(at::TensorList params, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
                   Rate lr, double lr_decay, double weight_decay, double eps, bool maximize,
                   const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf) {
  if (params.empty()) return;
  StepArguments step(Adagrad::kName, params, grads);
  step.add_state("state_sums", state_sums);
  step.add_steps(state_steps);
  step.add_rate(lr);
  step.add_scaler(grad_scale, found_inf);
  step.enqueue(Adagrad{lr_decay, weight_decay, eps, maximize});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sgd_", &fused_sgd<double>);
  m.impl("_fused_sgd_.tensor_lr", &fused_sgd<const at::Tensor&>);
  m.impl("_fused_adam_", &fused_adam</*kDecoupled=*/false, double>);
  m.impl("_fused_adam_.tensor_lr", &fused_adam<false, const at::Tensor&>);
  m.impl("_fused_adamw_", &fused_adam<true, double>);
  m.impl("_fused_adamw_.tensor_lr", &fused_adam<true, const at::Tensor&>);
  m.impl("_fused_adagrad_", &fused_adagrad<double>);
  m.impl("_fused_adagrad_.tensor_lr", &fused_adagrad<const at::Tensor&>);
}
// LITERALINCLUDE END: fused-operators

}  // namespace
}  // namespace openreg
