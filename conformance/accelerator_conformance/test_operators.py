"""PyTorch's own operator database: each sample gives the same result on the device as on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch

from accelerator_conformance import samples
from accelerator_conformance.checks import LEVELS, chapter, level, not_offered, optional_dtype

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about optional packages of PyTorch's test framework
    from torch.testing._internal.common_methods_invocations import op_db

pytestmark = chapter("operators")


def names(text: str) -> frozenset[str]:
    """The names of entries of the database."""
    return frozenset(text.split())


# What every program needs: tensors are created, combined, reduced, compared, moved about and multiplied.
MINIMAL = names("""
    abs add all amax any arange argmax bitwise_and cat clamp clone contiguous copysign cos cumsum
    div.no_rounding_mode eq exp expand fill flatten full full_like gather ge gt index_select isnan item le
    linspace log logical_and logical_not lt masked_fill matmul max.binary mean minimum mm mul ne neg ones
    ones_like permute pow reshape rsqrt scatter sigmoid sin softmax sqrt squeeze stack sub sum tanh transpose
    tril triu unsqueeze view where zeros zeros_like nn.functional.linear nn.functional.relu
""")
# What the models and optimizers in use also need.
USABLE = names("""
    addbmm addcdiv addcmul addmm addmv argmin argsort as_strided atan2 baddbmm bmm broadcast_to ceil chunk
    clamp_max clamp_min constant_pad_nd cosh cross cumprod diag_embed diagonal div.floor_rounding dot einsum
    erf erfinv expm1 flip floor floor_divide fmod index_add index_copy index_fill index_put isfinite isinf
    kron lerp log10 log1p log2 log_softmax logical_or logical_xor logsumexp masked_scatter masked_select
    max.reduction_with_dim maximum min.reduction_with_dim movedim mv narrow nonzero norm outer prod reciprocal
    remainder repeat repeat_interleave roll round scatter_add select sign sinh slice sort split std tan tile
    topk trace unbind unfold unique var vstack hstack nn.functional.avg_pool2d nn.functional.batch_norm
    nn.functional.bilinear nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
    nn.functional.conv1d nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.cosine_similarity
    nn.functional.cross_entropy nn.functional.embedding nn.functional.gelu nn.functional.group_norm
    nn.functional.hardtanh nn.functional.interpolate.bilinear nn.functional.interpolate.nearest
    nn.functional.layer_norm nn.functional.leaky_relu
    nn.functional.max_pool2d nn.functional.mse_loss nn.functional.nll_loss nn.functional.normalize
    nn.functional.one_hot nn.functional.pad.constant nn.functional.rms_norm
    nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.smooth_l1_loss
    nn.functional.softplus nn.functional.unfold
""")
DTYPES = {
    "minimal": (torch.float32, torch.int64, torch.bool),
    "usable": (torch.float16, torch.bfloat16),
    "complete": (torch.float64, torch.complex64, torch.int32, torch.uint8),
}
OPTIONAL_DTYPES = (torch.float64, torch.complex64)


def units() -> Iterator[object]:
    """All units, each with its level: the highest of those of its operator, its mode and its dtype."""
    for entry in sorted(op_db, key=lambda entry: entry.full_name):
        name = entry.full_name
        of_operator = 0 if name in MINIMAL else 1 if name in USABLE else 2
        for mode in samples.MODES:
            of_mode = 0 if mode == "forward" else 1 if mode in ("backward", "noncontiguous") else 2
            for of_dtype, dtypes in enumerate(DTYPES.values()):
                for dtype in filter(samples.dtypes(entry, mode).__contains__, dtypes):
                    asked = LEVELS[max(of_operator, of_mode, of_dtype)]
                    identifier = f"{name}-{mode}-{str(dtype).removeprefix('torch.')}"
                    yield pytest.param(entry, mode, dtype, marks=level(asked), id=identifier)


@pytest.mark.parametrize(("entry", "mode", "dtype"), list(units()))
def test_as_on_the_cpu(entry: samples.OpInfo, mode: str, dtype: torch.dtype, device: str) -> None:
    """An operator gives the same results on the device as on the CPU, for all samples of PyTorch's database."""
    if entry.name in samples.MISJUDGED and dtype in samples.HALVES:
        not_offered("nothing to compare: the CPU's own answer is wrong")
    if dtype in OPTIONAL_DTYPES:
        with optional_dtype(dtype):
            torch.zeros(1, dtype=dtype).to(device)
    comparison = samples.Comparison(entry, device, dtype)
    try:
        comparison.run(mode)
    except NotImplementedError as error:
        if entry.full_name in MINIMAL or entry.full_name in USABLE:
            raise
        not_offered(str(error).partition("\n")[0])
    if not comparison.compared:
        not_offered("nothing to compare: the CPU supports none of the samples")
