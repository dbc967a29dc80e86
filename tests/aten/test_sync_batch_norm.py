"""The operators of nn.SyncBatchNorm: combined over two devices, they give the batch norm of the whole batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.usefixtures("nothing_falls_back")
aten = torch.ops.aten
EPS, MOMENTUM = 1e-5, 0.1
SHAPES = {"rows": (6, 3), "signal": (5, 3, 4), "image": (4, 3, 2, 5), "volume": (3, 3, 2, 2, 3)}
DEVICES = ("openreg:0", LAST_DEVICE)  # of the two parts


def gathered(tensors: list[Tensor], device: str) -> Tensor:
    """What every process holds after an all-gather: here, two devices of one process."""
    return torch.stack([tensor.to(device) for tensor in tensors])


def same(actual: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float) -> None:
    torch.testing.assert_close(list(actual), list(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_two_devices_are_one_batch_norm(shape: tuple[int, ...], dtype: torch.dtype, affine: bool) -> None:
    statistics = torch.float32 if dtype.itemsize == 2 else dtype
    tolerance = 2e-2 if dtype.itemsize == 2 else 1e-5
    x, grad = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    wide = x.to(statistics).requires_grad_()
    parameters = [torch.randn(3, dtype=statistics).requires_grad_() for _ in range(2)] if affine else []
    weight, bias = parameters or (None, None)
    mean_of_all, variance_of_all = torch.zeros(3, dtype=statistics), torch.ones(3, dtype=statistics)
    expected = functional.batch_norm(wide, mean_of_all, variance_of_all, weight, bias, True, MOMENTUM, EPS)
    gradients = torch.autograd.grad(expected, [wide, *parameters], grad.to(statistics))

    # The batch is cut into parts of different sizes.
    xs = [part.to(device) for part, device in zip((x[:-1], x[-1:]), DEVICES, strict=True)]
    grads = [part.to(device) for part, device in zip((grad[:-1], grad[-1:]), DEVICES, strict=True)]
    counts = [torch.tensor(part.numel() // 3, dtype=statistics) for part in xs]
    local = [aten.batch_norm_stats(part, EPS) for part in xs]
    assert {tensor.dtype for pair in local for tensor in pair} == {statistics}
    outputs, reduced, saved = [], [], []
    for device, part, part_grad in zip(DEVICES, xs, grads, strict=True):
        running = [torch.zeros(3, device=device, dtype=statistics), torch.ones(3, device=device, dtype=statistics)]
        means, invstds = (gathered([pair[i] for pair in local], device) for i in range(2))
        mean, invstd = aten.batch_norm_gather_stats_with_counts(
            part, means, invstds, *running, MOMENTUM, EPS, gathered(counts, device)
        )
        same([tensor.cpu() for tensor in running], [mean_of_all, variance_of_all], 1e-4)
        own = [None if tensor is None else tensor.detach().to(device) for tensor in (weight, bias)]
        outputs.append(aten.batch_norm_elemt(part, *own, mean, invstd, EPS))
        reduced.append(aten.batch_norm_backward_reduce(part_grad, part, mean, invstd, own[0], True, affine, affine))
        saved.append((part_grad, part, mean, invstd, own[0]))
    of_input = []
    for device, call in zip(DEVICES, saved, strict=True):
        sums = [gathered([parts[i] for parts in reduced], device).sum(0) for i in range(2)]
        of_input.append(aten.batch_norm_backward_elemt(*call, *sums, gathered(counts, device).to(torch.int32)))
    assert {tensor.dtype for tensor in [*outputs, *of_input]} == {dtype}
    joined = [torch.cat([part.cpu() for part in parts]).to(statistics) for parts in (outputs, of_input)]
    same(joined, [expected.detach(), gradients[0]], tolerance)
    if affine:
        summed = [torch.stack([parts[i].cpu() for parts in reduced]).sum(0) for i in (2, 3)]
        same(summed, gradients[1:], tolerance)
    else:
        assert [parts[2:] for parts in reduced] == [(None, None)] * 2


def test_one_count_for_all() -> None:
    x = torch.randn(4, 3, 5, device="openreg")
    means, invstds = torch.randn(2, 3, device="openreg"), torch.rand(2, 3, device="openreg") + 0.5
    counts = torch.full((2,), 20.0, device="openreg")
    expected = aten.batch_norm_gather_stats_with_counts(x, means, invstds, None, None, MOMENTUM, EPS, counts)
    assert len(expected) == 2
    torch.testing.assert_close(aten.batch_norm_gather_stats(x, means, invstds, None, None, MOMENTUM, EPS, 20), expected)


def test_update_stats_is_that_of_the_cpu() -> None:
    x = torch.randn(4, 3, 5)
    results = []
    for device in ("cpu", "openreg"):
        running = [torch.zeros(3, device=device), torch.ones(3, device=device)]
        returned = aten.batch_norm_update_stats(x.to(device), *running, MOMENTUM)
        results.append([tensor.cpu() for tensor in (*returned, *running)])
    torch.testing.assert_close(results[1], results[0])


def test_the_output_of_the_caller() -> None:
    x = torch.randn(2, 3, 4, device="openreg")
    mean, invstd = aten.batch_norm_stats(x, EPS)
    out = torch.empty(0, device="openreg")
    assert aten.batch_norm_elemt.out(x, None, None, mean, invstd, EPS, out=out) is out
    torch.testing.assert_close(out, aten.batch_norm_elemt(x, None, None, mean, invstd, EPS))


def test_what_is_refused() -> None:
    x = torch.randn(2, 3, 4, device="openreg")
    mean, invstd = aten.batch_norm_stats(x, EPS)
    with pytest.raises(RuntimeError, match=r"expected one number for each of 3 channels, but got shape \[2\]"):
        aten.batch_norm_elemt(x, None, None, mean[:2], invstd, EPS)
    with pytest.raises(RuntimeError, match=r"expected mean and invstd of shape \[processes, channels\]"):
        aten.batch_norm_gather_stats(x, mean, invstd, None, None, MOMENTUM, EPS, 8)
    with pytest.raises(RuntimeError, match="floating point with at least 2 dimensions, but got Long of shape"):
        aten.batch_norm_stats(torch.ones(2, 3, dtype=torch.int64, device="openreg"), EPS)


def test_the_module_in_one_process() -> None:
    """Without a process group it is a plain batch norm, and its list of supported devices includes this one."""
    module = torch.nn.SyncBatchNorm(3).to("openreg")
    plain = torch.nn.BatchNorm1d(3)
    x = torch.randn(4, 3)
    torch.testing.assert_close(module(x.to("openreg")).cpu(), plain(x))
