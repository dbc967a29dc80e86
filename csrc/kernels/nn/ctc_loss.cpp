// The CTC loss and its derivative, on the library (see host_library.h). Called on any thread, with or without the GIL;
// the library runs on the device's stream.
#include <ATen/TensorMeta.h>
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <ATen/ops/_ctc_loss_backward_native.h>
#include <ATen/ops/_ctc_loss_native.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <tuple>

#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: ctc-loss-labels
// Raises for a label that is not a class: the library would use it as an index, and read out of bounds.
void check_labels(const at::Tensor& labels, int64_t sample, int64_t classes) {
  for (const int64_t label : std::span(labels.const_data_ptr<int64_t>(), static_cast<size_t>(labels.numel()))) {
    TORCH_CHECK(label >= 0 && label < classes, "ctc_loss: sample ", sample, " has the label ", label,
                ", and log_probs has ", classes, " classes: give labels of 0 to ", classes - 1);
  }
}

// For the derivative, which checks none of them. log_probs: [T, N, C].
void check_lengths(const at::Tensor& log_probs, const at::Tensor& labels, at::IntArrayRef inputs,
                   at::IntArrayRef targets, int64_t blank) {
  const int64_t steps = log_probs.size(0);
  const auto batch = static_cast<size_t>(log_probs.size(1));
  const int64_t classes = log_probs.size(2);
  TORCH_CHECK(blank >= 0 && blank < classes, "_ctc_loss_backward: expected a blank of 0 to ", classes - 1, ", but got ",
              blank);
  TORCH_CHECK(inputs.size() == batch && targets.size() == batch &&
                  std::ranges::all_of(inputs, [=](int64_t length) { return length >= 0 && length <= steps; }) &&
                  std::ranges::all_of(targets, [](int64_t length) { return length >= 0; }),
              "_ctc_loss_backward: expected lengths of ", batch, " sequences, of 0 to ", steps, " steps, but got ",
              inputs, " and ", targets);
  const int64_t all = std::accumulate(targets.begin(), targets.end(), int64_t{0});
  const int64_t most = targets.empty() ? 0 : std::ranges::max(targets);
  TORCH_CHECK(labels.dim() == 1 ? labels.size(0) >= all
                                : labels.dim() == 2 && labels.size(0) == log_probs.size(1) && labels.size(1) >= most,
              "_ctc_loss_backward: targets of shape ", labels.sizes(), " do not have the labels of lengths ", targets);
}

// targets: one row for each sample, of which the first `lengths[sample]` elements count; or those of all samples,
// concatenated.
void check_targets(const at::Tensor& targets, at::IntArrayRef lengths, int64_t classes) {
  const at::Tensor labels = targets.to(at::kLong).contiguous();
  int64_t begin = 0;
  for (int64_t sample = 0; sample < static_cast<int64_t>(lengths.size()); ++sample) {
    const at::Tensor row = labels.dim() == 2 ? labels.slice(0, sample, sample + 1).flatten() : labels.slice(0, begin);
    check_labels(row.slice(0, 0, lengths[sample]), sample, classes);
    begin += lengths[sample];
  }
}
// LITERALINCLUDE END: ctc-loss-labels

// LITERALINCLUDE START: ctc-loss-forward
// schema: aten::_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0,
//         bool zero_infinity=False) -> (Tensor, Tensor)
//
// log_probs: [T, N, C]. The second output, [N, T, 2 * (the longest target) + 1], is kept for the derivative: the
// logarithm of the probability of being, at each step, at each position in a target with blanks between its labels.
int64_t longest(at::IntArrayRef lengths) { return lengths.empty() ? 0 : std::ranges::max(lengths); }

struct CtcLossMeta : at::impl::MetaBase {
  void meta(const at::Tensor& log_probs, const at::Tensor&, at::IntArrayRef, at::IntArrayRef target_lengths, int64_t,
            bool) {
    TORCH_CHECK(log_probs.dim() == 3, "ctc_loss: expected log_probs of 3 dimensions, but got shape ",
                log_probs.sizes());
    const int64_t batch = log_probs.size(1);
    set_output_raw_strided(0, {batch}, {}, log_probs.options());
    set_output_raw_strided(1, {batch, log_probs.size(0), 2 * longest(target_lengths) + 1}, {}, log_probs.options());
  }
};

// The library rejects some values of labels and lengths.
struct CtcLoss : LibraryKernel<CtcLoss, /*kWaits=*/true> {
  using Meta = CtcLossMeta;
  static constexpr auto kName = "_ctc_loss";
  static constexpr auto kOnOneDevice =
      std::array{"log_probs", "targets", "input_lengths", "target_lengths", "blank", "zero_infinity"};
  static constexpr auto kOutputs = 2;

  static void compute(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                      at::IntArrayRef target_lengths, int64_t blank, bool zero_infinity, at::Tensor& loss,
                      at::Tensor& log_alpha) {
    check_targets(targets, target_lengths, log_probs.size(2));
    const auto [losses, alphas] =
        at::_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
    loss.copy_(losses);
    log_alpha.copy_(alphas);
  }
};
// LITERALINCLUDE END: ctc-loss-forward

// LITERALINCLUDE START: ctc-loss-backward
// schema: aten::_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths,
//         int[] target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False)
//         -> Tensor
struct CtcLossBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor&, at::IntArrayRef,
            at::IntArrayRef target_lengths, const at::Tensor& loss, const at::Tensor& log_alpha, int64_t, bool) {
    const int64_t batch = log_probs.size(1);
    const std::array saved{batch, log_probs.size(0), 2 * longest(target_lengths) + 1};
    TORCH_CHECK(grad.numel() == batch && loss.numel() == batch && log_alpha.sizes() == at::IntArrayRef(saved),
                "_ctc_loss_backward: expected a gradient and a loss for each of ", batch,
                " sequences, and log_alpha of ", "shape ", at::IntArrayRef(saved), ", but got ", grad.sizes(), ", ",
                loss.sizes(), " and ", log_alpha.sizes());
    set_output_raw_strided(0, log_probs.sizes(), {}, log_probs.options());
  }
};

struct CtcLossBackward : LibraryKernel<CtcLossBackward, /*kWaits=*/true> {
  using Meta = CtcLossBackwardMeta;
  static constexpr auto kName = "_ctc_loss_backward";
  static constexpr auto kOnOneDevice =
      std::array{"grad",      "log_probs", "targets",      "input_lengths", "target_lengths", "neg_log_likelihood",
                 "log_alpha", "blank",     "zero_infinity"};
  static constexpr auto kOutputs = 1;

  static void compute(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                      at::IntArrayRef input_lengths, at::IntArrayRef target_lengths, const at::Tensor& loss,
                      const at::Tensor& log_alpha, int64_t blank, bool zero_infinity, at::Tensor& result) {
    check_lengths(log_probs, targets, input_lengths, target_lengths, blank);
    check_targets(targets, target_lengths, log_probs.size(2));
    result.copy_(at::_ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, loss, log_alpha, blank,
                                        zero_infinity));
  }
};
// LITERALINCLUDE END: ctc-loss-backward

// LITERALINCLUDE START: ctc-loss-registration
std::tuple<at::Tensor, at::Tensor> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                                            at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                                            int64_t blank, bool zero_infinity) {
  return functional<CtcLoss>(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
}

at::Tensor ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                             at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                             const at::Tensor& neg_log_likelihood, const at::Tensor& log_alpha, int64_t blank,
                             bool zero_infinity) {
  return functional<CtcLossBackward>(grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood,
                                     log_alpha, blank, zero_infinity);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_ctc_loss", ctc_loss);
  m.impl("_ctc_loss_backward", ctc_loss_backward);
  // Lengths in tensors: PyTorch copies them to the host, and calls the two above.
  m.impl("_ctc_loss.Tensor", at::native::ctc_loss_tensor);
  m.impl("_ctc_loss_backward.Tensor", at::native::ctc_loss_backward_tensor);
}
// LITERALINCLUDE END: ctc-loss-registration

}  // namespace
}  // namespace openreg
