// Grid sampling and its derivative, on the library (see host_library.h). Called on any thread, with or without the GIL;
// the library runs on the device's stream.
#include <ATen/TensorMeta.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/_grid_sampler_2d_cpu_fallback_backward.h>
#include <ATen/ops/grid_sampler_2d.h>
#include <ATen/ops/grid_sampler_2d_backward.h>
#include <ATen/ops/grid_sampler_3d.h>
#include <ATen/ops/grid_sampler_3d_backward.h>
#include <ATen/ops/isfinite.h>
#include <torch/library.h>

#include <array>
#include <tuple>

#include "aten/structured/structured.h"
#include "kernels/library/host_library.h"

namespace openreg {
namespace {

// LITERALINCLUDE START: grid-sampler-checks
// Raises what PyTorch raises, and for an unknown interpolation or padding, which PyTorch lets pass: the library then
// writes nothing.
template <size_t kDims>
void check_grid_sampler(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation, int64_t padding) {
  at::native::check_grid_sampler_common(input, grid);
  if constexpr (kDims == 2) {
    at::native::check_grid_sampler_2d(input, grid);
  } else {
    at::native::check_grid_sampler_3d(input, grid, interpolation);
  }
  TORCH_CHECK(interpolation >= 0 && interpolation <= 2 && padding >= 0 && padding <= 2, "grid_sampler(): expected an ",
              "interpolation and a padding of 0, 1 or 2, but got ", interpolation, " and ", padding);
  TORCH_CHECK(input.dtype() == grid.dtype(), "grid_sampler(): expected input and grid to have same dtype, but input ",
              "has ", input.dtype(), " and grid has ", grid.dtype());
}

// The output's sizes: the batch and the positions of the grid, with the channels of the input.
template <size_t kDims>
at::DimVector sampled_sizes(const at::Tensor& input, const at::Tensor& grid) {
  at::DimVector sizes(grid.sizes().slice(0, kDims + 1));
  sizes.insert(sizes.begin() + 1, input.size(1));
  return sizes;
}

// The library's loop for 16-bit dtypes reads beyond its rows, and rounds after each step, so it computes in float here.
at::Tensor in_float(const at::Tensor& tensor) {
  return at::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}
// LITERALINCLUDE END: grid-sampler-checks

// LITERALINCLUDE START: grid-sampler-forward
// schema: aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode,
//         bool align_corners) -> Tensor
template <size_t kDims>
struct GridSamplerMeta : at::impl::MetaBase {
  void meta(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation, int64_t padding, bool) {
    check_grid_sampler<kDims>(input, grid, interpolation, padding);
    set_output_raw_strided(0, sampled_sizes<kDims>(input, grid), {}, input.options());
  }
};

template <size_t kDims>
struct GridSampler : LibraryKernel<GridSampler<kDims>, /*kWaits=*/false> {
  using Meta = GridSamplerMeta<kDims>;
  static constexpr auto kName = kDims == 2 ? "grid_sampler_2d" : "grid_sampler_3d";
  static constexpr auto kOutputs = 1;

  static void compute(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation, int64_t padding,
                      bool align_corners, at::Tensor& output) {
    const auto function = kDims == 2 ? &at::grid_sampler_2d : &at::grid_sampler_3d;
    output.copy_(function(in_float(input), in_float(grid), interpolation, padding, align_corners));
  }
};
// LITERALINCLUDE END: grid-sampler-forward

// LITERALINCLUDE START: grid-sampler-backward
// schema: aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode,
//         int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)
template <size_t kDims>
struct GridSamplerBackwardMeta : at::impl::MetaBase {
  void meta(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& grid, int64_t interpolation,
            int64_t padding, bool, std::array<bool, 2> wanted) {
    check_grid_sampler<kDims>(input, grid, interpolation, padding);
    const at::DimVector sizes = sampled_sizes<kDims>(input, grid);
    TORCH_CHECK(grad_output.sizes() == at::IntArrayRef(sizes), "grid_sampler(): the gradient has shape ",
                grad_output.sizes(), ", and the output ", at::IntArrayRef(sizes));
    if (wanted[0]) set_output_raw_strided(0, input.sizes(), {}, input.options());
    set_output_raw_strided(1, grid.sizes(), {}, grid.options());  // even if not needed, as everywhere in PyTorch
  }
};

// The library's vectorized loop for two dimensions writes outside of the image where a position is not finite, as it is
// once a network has diverged. Its other loop does not, and exists for float alone. A position is a number of the grid
// times the size of the image, which a bound leaves room for.
template <size_t kDims>
std::tuple<at::Tensor, at::Tensor> grads_by_library(const at::Tensor& grad_output, const at::Tensor& input,
                                                    const at::Tensor& grid, int64_t interpolation, int64_t padding,
                                                    bool align_corners, std::array<bool, 2> wanted) {
  if constexpr (kDims == 3) {
    return at::grid_sampler_3d_backward(grad_output, input, grid, interpolation, padding, align_corners, wanted);
  } else if (grid.abs().lt(1e30).all().item<bool>()) {
    return at::grid_sampler_2d_backward(grad_output, input, grid, interpolation, padding, align_corners, wanted);
  } else {
    return at::_grid_sampler_2d_cpu_fallback_backward(grad_output.to(at::kFloat), input.to(at::kFloat),
                                                      grid.to(at::kFloat), interpolation, padding, align_corners);
  }
}

template <size_t kDims>
struct GridSamplerBackward : LibraryKernel<GridSamplerBackward<kDims>, /*kWaits=*/false> {
  using Meta = GridSamplerBackwardMeta<kDims>;
  static constexpr auto kName = kDims == 2 ? "grid_sampler_2d_backward" : "grid_sampler_3d_backward";
  static constexpr auto kOnOneDevice =
      std::array{"grad_output", "input", "grid", "interpolation_mode", "padding_mode", "align_corners", "output_mask"};
  static constexpr auto kOutputs = 2;

  static void compute(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& grid,
                      int64_t interpolation, int64_t padding, bool align_corners, std::array<bool, 2> wanted,
                      at::Tensor& grad_input, at::Tensor& grad_grid) {
    const auto [of_input, of_grid] = grads_by_library<kDims>(in_float(grad_output), in_float(input), in_float(grid),
                                                             interpolation, padding, align_corners, wanted);
    if (wanted[0]) grad_input.copy_(of_input);
    grad_grid.copy_(of_grid);
  }
};
// LITERALINCLUDE END: grid-sampler-backward

// LITERALINCLUDE START: grid-sampler-registration
template <size_t kDims>
at::Tensor grid_sampler(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation, int64_t padding,
                        bool align_corners) {
  return functional<GridSampler<kDims>>(input, grid, interpolation, padding, align_corners);
}

template <size_t kDims>
std::tuple<at::Tensor, at::Tensor> grid_sampler_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                         const at::Tensor& grid, int64_t interpolation, int64_t padding,
                                                         bool align_corners, std::array<bool, 2> output_mask) {
  return functional<GridSamplerBackward<kDims>>(grad_output, input, grid, interpolation, padding, align_corners,
                                                output_mask);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("grid_sampler_2d", grid_sampler<2>);
  m.impl("grid_sampler_2d_backward", grid_sampler_backward<2>);
  m.impl("grid_sampler_3d", grid_sampler<3>);
  m.impl("grid_sampler_3d_backward", grid_sampler_backward<3>);
}
// LITERALINCLUDE END: grid-sampler-registration

}  // namespace
}  // namespace openreg
