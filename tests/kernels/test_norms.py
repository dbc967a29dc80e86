"""Layer, group, batch and instance norm: results, statistics and gradients as on the CPU, over layouts and dtypes."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.offers import DEVICES
from tests.runtime.busy import assert_queued

pytestmark = [
    pytest.mark.usefixtures("nothing_falls_back"),
    pytest.mark.skipif(
        "aten::native_batch_norm" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
        reason="this build has no kernels",
    ),
]
aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float32: 2e-5, torch.float64: 1e-12}

LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "rows": lambda: torch.randn(5, 4),
    "columns": lambda: torch.randn(4, 5).t(),
    "signal": lambda: torch.randn(3, 4, 6),
    "transposed signal": lambda: torch.randn(3, 6, 4).mT,
    "image": lambda: torch.randn(3, 4, 5, 6),
    "channels last": lambda: torch.randn(3, 4, 5, 6).to(memory_format=torch.channels_last),
    "every second row": lambda: torch.randn(3, 4, 5, 6).to(memory_format=torch.channels_last)[:, :, ::2],
    "one pixel": lambda: torch.randn(3, 4, 1, 1),
    "volume": lambda: torch.randn(2, 4, 2, 3, 2),
    "volume, channels last": lambda: torch.randn(2, 4, 2, 3, 2).to(memory_format=torch.channels_last_3d),
}


def here(tensor: Any) -> Any:
    """The tensor, or None, as it is."""
    return tensor


def there(tensor: Any) -> Any:
    """The same tensor on the device, with the same strides."""
    if tensor is None:
        return None
    on_device = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="openreg")
    return on_device.copy_(tensor.detach()).requires_grad_(tensor.requires_grad)


def same(actual: list[Any], expected: list[Any], dtype: torch.dtype) -> None:
    """Compares values, dtypes and strides; ignores the strides of dimensions with one element."""
    assert [tensor is None for tensor in actual] == [tensor is None for tensor in expected]
    for one, other in zip(actual, expected, strict=True):
        if one is None or other is None:
            continue
        assert one.device.type == "openreg"
        torch.testing.assert_close(one.cpu(), other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], equal_nan=True)
        strides = [[stride for size, stride in zip(t.shape, t.stride(), strict=True) if size > 1] for t in (one, other)]
        assert strides[0] == strides[1]


def with_gradients(norm: Callable[..., Any], x: Tensor, *parameters: Tensor | None) -> list[Any]:
    """The results, and the gradients of a weighted sum of the first of them."""
    x = x.detach().requires_grad_()
    leaves = [None if t is None else t.detach().requires_grad_() for t in parameters]
    outputs = norm(x, *leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    weights = torch.linspace(-1, 1, outputs[0].numel()).view(outputs[0].shape).to(x.device, x.dtype)
    outputs[0].backward(weights)
    return [*(t.detach() for t in outputs), x.grad, *(leaf.grad for leaf in leaves if leaf is not None)]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batch_norm_by_layout(layout: str, training: bool) -> None:
    x = LAYOUTS[layout]()
    weight, bias, mean, variance = torch.rand(4) + 0.5, torch.randn(4), torch.randn(4), torch.rand(4) + 0.5
    # The CPU reads freed memory for a weight with gaps, so it is given one without.
    for parameters in ((weight, bias), (None, None), (weight, None), (torch.rand(8)[::2], bias)):
        results: list[list[Any]] = []
        for to in (there, lambda tensor: None if tensor is None else tensor.contiguous()):
            statistics = [to(mean.clone()), to(variance.clone())]
            outputs = with_gradients(
                lambda x, w, b, statistics=statistics: aten.native_batch_norm(
                    x, w, b, *statistics, training, 0.3, 1e-3
                ),
                there(x) if to is there else x,
                *map(to, parameters),
            )
            results.append([*outputs, *statistics])
        same(results[0], results[1], torch.float32)
        assert torch.equal(mean, results[1][-2]) == (not training)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batch_norm_by_dtype(dtype: torch.dtype, mixed: bool, training: bool) -> None:
    if mixed and dtype in (torch.float32, torch.float64):
        mixed = False  # there is no other dtype to mix with; float64 with float32 is refused
    of_parameters = torch.float32 if mixed else dtype
    parameters = [(torch.rand(4) + 0.5).to(of_parameters) for _ in range(4)]
    for shape in ((6, 4), (2, 4, 3, 5)):
        x = torch.randn(shape).to(dtype)
        results: list[list[Any]] = []
        for to in (there, here):
            weight, bias, mean, variance = (to(t.clone()) for t in parameters)
            outputs = with_gradients(
                lambda x, w, b, mean=mean, variance=variance: aten.native_batch_norm(
                    x, w, b, mean, variance, training, 0.3, 1e-3
                ),
                to(x),
                weight,
                bias,
            )
            results.append([*outputs, mean, variance])
        same(results[0], results[1], dtype)
        assert results[0][1].dtype == of_parameters


def test_batch_norm_without_statistics() -> None:
    x, weight = torch.randn(3, 4, 5), torch.rand(4)
    for norm in (
        lambda x, w: aten.native_batch_norm(x, w, None, None, None, True, 0.1, 1e-5),
        lambda x, w: aten._native_batch_norm_legit.no_stats(x, w, None, True, 0.1, 1e-5),
        lambda x, w: functional.instance_norm(x, weight=w),
    ):
        same(with_gradients(norm, there(x), there(weight)), with_gradients(norm, x, weight), torch.float32)


@pytest.mark.parametrize("training", [True, False])
def test_schemas_that_say_what_is_written(training: bool) -> None:
    x, weight, bias = torch.randn(3, 4, 5, requires_grad=True), torch.rand(4), torch.rand(4)
    results: list[list[Any]] = []
    versions = []
    for to in (there, here):
        mean, variance = to(torch.zeros(4)), to(torch.ones(4))
        before = mean._version, variance._version
        outputs = aten._native_batch_norm_legit(to(x), to(weight), to(bias), mean, variance, training, 0.3, 1e-3)
        results.append([*(t.detach() for t in outputs), mean, variance])
        versions.append((mean._version - before[0], variance._version - before[1]))
    same(results[0], results[1], torch.float32)
    assert versions[0] == versions[1]


def test_the_overload_with_a_fourth_result() -> None:
    x, weight, bias = torch.randn(3, 4, 5), torch.rand(4), torch.rand(4)
    results: list[list[Any]] = []
    for to in (there, here):
        mean, variance = to(torch.zeros(4)), to(torch.ones(4))
        results.append(
            [
                *with_gradients(
                    lambda x, w, b, mean=mean, variance=variance: aten._batch_norm_with_update(
                        x, w, b, mean, variance, 0.3, 1e-3
                    ),
                    to(x),
                    to(weight),
                    to(bias),
                ),
                mean,
                variance,
            ]
        )
    same(results[0], results[1], torch.float32)
    assert results[0][3].shape == (0,)
    assert results[0][3].dtype == torch.uint8


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batch_norm_with_out(layout: str, training: bool) -> None:
    """Compared with the overload that returns new tensors: the CPU's `out=` is wrong for many layouts."""
    x = LAYOUTS[layout]()
    weight, statistics = torch.rand(4), (torch.randn(4), torch.rand(4) + 0.5)
    expected_statistics = [t.clone() for t in statistics]
    expected = aten.native_batch_norm(x.contiguous(), weight, None, *expected_statistics, training, 0.3, 1e-3)
    outputs = [torch.empty_like(x), torch.empty_like(x.mT).mT, torch.empty(x.shape), torch.empty(*x.shape, 2)[..., 0]]
    for out, operator in itertools.product(outputs, (aten.native_batch_norm.out, aten._native_batch_norm_legit.out)):
        outs = [there(t) for t in (out, torch.full((4,), 7.0), torch.full((4, 2), 8.0)[:, 0])]
        names = dict(zip(("out", "save_mean", "save_invstd"), outs, strict=True))
        on_device = [there(t) for t in statistics]
        returned = operator(there(x), there(weight), None, *on_device, training, 0.3, 1e-3, **names)
        assert all(one is other for one, other in zip(returned, outs, strict=True))
        assert outs[0].stride() == out.stride()
        saved = expected[1:] if training else (torch.full((4,), 7.0), torch.full((4,), 8.0))
        for one, other in zip([*outs, *on_device], [expected[0], *saved, *expected_statistics], strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=2e-5, atol=2e-5, check_stride=False)


def test_batch_norm_with_out_that_grows() -> None:
    x = torch.randn(3, 4, 5)
    outs = [torch.empty(0, device="openreg") for _ in range(3)]
    aten._native_batch_norm_legit.no_stats_out(
        there(x), None, None, True, 0.3, 1e-3, out=outs[0], save_mean=outs[1], save_invstd=outs[2]
    )
    same(outs, list(aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.3, 1e-3)), torch.float32)


@pytest.mark.parametrize("layer", [torch.nn.BatchNorm2d, torch.nn.InstanceNorm2d])
def test_a_model_that_was_trained_evaluates_well(layer: type[torch.nn.Module]) -> None:
    here = layer(4, affine=True, track_running_stats=True)
    on_device = layer(4, affine=True, track_running_stats=True).to("openreg")
    for _ in range(3):
        x = torch.randn(5, 4, 6, 6) * 2 + 1
        torch.testing.assert_close(on_device(x.to("openreg")).cpu(), here(x), rtol=2e-5, atol=2e-5)
    for name, buffer in here.named_buffers():
        torch.testing.assert_close(on_device.get_buffer(name).cpu(), buffer)
    assert here.running_mean.count_nonzero() == 4
    here.eval()
    torch.testing.assert_close(on_device.eval()(x.to("openreg")).cpu(), here(x), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("norm", ["batch", "group", "layer"])
def test_gradients_that_nobody_asked_for(norm: str) -> None:
    x, weight = torch.randn(6, 4), torch.rand(4)
    for mask in itertools.product([True, False], repeat=3):
        results: list[list[Any]] = []
        for to in (there, here):
            if norm == "batch":
                _, mean, invstd = aten.native_batch_norm(to(x), to(weight), None, None, None, True, 0.1, 1e-5)
                results.append(
                    aten.native_batch_norm_backward(
                        to(x), to(x), to(weight), None, None, mean, invstd, True, 1e-5, mask
                    )
                )
            elif norm == "layer":
                _, mean, rstd = torch.native_layer_norm(to(x), (4,), to(weight), None, 1e-5)
                arguments = (to(x), to(x), (4,), mean, rstd, to(weight), to(weight))
                results.append(aten.native_layer_norm_backward(*arguments, mask))
            else:
                _, mean, rstd = torch.native_group_norm(to(x), to(weight), None, 6, 4, 1, 2, 1e-5)
                results.append(aten.native_group_norm_backward(to(x), to(x), mean, rstd, to(weight), 6, 4, 1, 2, mask))
        same(list(results[0]), list(results[1]), torch.float32)
        assert [gradient is not None for gradient in results[0]] == list(mask)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_group_norm_by_layout(layout: str) -> None:
    x, weight, bias = LAYOUTS[layout](), torch.rand(4) + 0.5, torch.randn(4)
    for groups, parameters in itertools.product((1, 2, 4), ((weight, bias), (None, None), (torch.rand(8)[::2], bias))):
        results = [
            with_gradients(
                lambda x, w, b, groups=groups: functional.group_norm(x, groups, w, b), to(x), *map(to, parameters)
            )
            for to in (there, here)
        ]
        same(results[0], results[1], torch.float32)


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm(dtype: torch.dtype, mixed: bool) -> None:
    mixed &= dtype in (torch.bfloat16, torch.float16)
    weight, bias = (torch.randn(3, 2).to(torch.float32 if mixed else dtype) for _ in range(2))

    def norm(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, ...]:
        return torch.native_layer_norm(x.mT, (3, 2), weight, bias, 0.1)

    for x in (torch.randn(4, 5, 2, 3), torch.randn(2, 3), torch.randn(0, 2, 3), torch.randn(4, 2, 6)[..., ::2]):
        for parameters in ((weight, bias),) if mixed else ((weight, bias), (weight, None), (None, None)):
            results = [with_gradients(norm, to(x.to(dtype)), *map(to, parameters)) for to in (there, here)]
            same(results[0], results[1], dtype)
            assert results[0][1].dtype == weight.dtype


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_group_norm_by_dtype(dtype: torch.dtype, mixed: bool) -> None:
    mixed &= dtype in (torch.bfloat16, torch.float16)
    parameters = [(torch.rand(4) + 0.5).to(torch.float32 if mixed else dtype) for _ in range(2)]
    for shape in ((6, 4), (2, 4, 3, 5)):
        x = torch.randn(shape).to(dtype)
        positions = x[0, 0].numel()

        def norm(x: Tensor, weight: Tensor, bias: Tensor, positions: int = positions) -> tuple[Tensor, ...]:
            return torch.native_group_norm(x, weight, bias, len(x), 4, positions, 2, 1e-3)

        results = [with_gradients(norm, to(x), *map(to, parameters)) for to in (there, here)]
        same(results[0], results[1], dtype)
        assert results[0][1].dtype == parameters[0].dtype


def test_second_derivatives() -> None:
    def batch(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return functional.batch_norm(x, None, None, w, b, training=True)

    def group(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return functional.group_norm(x, 2, w, b)

    torch.openreg.set_fallback_policy("all")  # second derivatives use other operators
    for norm in (batch, group):
        leaves = [
            t.to("openreg", torch.float64).requires_grad_()
            for t in (torch.randn(3, 4, 2), torch.rand(4), torch.rand(4))
        ]
        assert torch.autograd.gradcheck(norm, leaves)
        assert torch.autograd.gradgradcheck(norm, leaves)


def test_tensors_without_elements() -> None:
    weight = torch.rand(4)
    for shape in ((0, 4), (2, 4, 0), (0, 4, 3, 3)):
        for norm in (
            lambda x, w: functional.batch_norm(x, torch.zeros_like(w), torch.ones_like(w), w),
            lambda x, w: functional.group_norm(x, 2, w),
        ):
            x = torch.randn(shape)
            try:
                expected = with_gradients(norm, x, weight)
            except RuntimeError as error:  # since 2.14, if there is nothing to normalize over
                with pytest.raises(RuntimeError, match=re.escape(str(error))):
                    with_gradients(norm, there(x), there(weight))
            else:
                same(with_gradients(norm, there(x), there(weight)), expected, torch.float32)
    # PyTorch's CPU kernel crashes the process with this call: it divides by the number of elements.
    x, ones = torch.empty(0, 4, device="openreg"), torch.ones(4, device="openreg")
    gradients = aten.native_batch_norm_backward(x, x, ones, None, None, ones, ones, True, 1e-5, [True] * 3)
    assert [gradient.tolist() for gradient in gradients] == [[], [0.0] * 4, [0.0] * 4]


def ones(*shape: int, dtype: torch.dtype = torch.float32, device: str = "openreg") -> Tensor:
    return torch.ones(shape, dtype=dtype, device=device)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: aten.native_batch_norm(ones(2, 3), ones(4), None, None, None, True, 0.1, 1e-5),
            RuntimeError,
            r"weight should contain 3 elements in one dimension, not a tensor of shape \[4\]",
        ),
        (
            lambda: aten.native_batch_norm(ones(2, 3), None, None, ones(3, 1), ones(3), True, 0.1, 1e-5),
            RuntimeError,
            r"running_mean should contain 3 elements in one dimension, not a tensor of shape \[3, 1\]",
        ),
        (
            lambda: aten.native_batch_norm(ones(2, 3), None, None, ones(3), None, True, 0.1, 1e-5),
            ValueError,
            "running_mean and running_var must either both be None or neither be None",
        ),
        (
            lambda: aten.native_batch_norm(ones(2, 3), None, None, ones(3), ones(3).int(), False, 0.1, 1e-5),
            RuntimeError,
            "running_mean and running_var must have one dtype, not float and int",
        ),
        (
            lambda: aten._native_batch_norm_legit.no_stats(ones(2, 3), None, None, False, 0.1, 1e-5),
            ValueError,
            "batch norm was not given running_mean and running_var, and needs them here",
        ),
        (
            lambda: aten.native_batch_norm(ones(3), None, None, None, None, True, 0.1, 1e-5),
            IndexError,
            "Dimension out of range",
        ),
        (
            lambda: aten.native_batch_norm(ones(0, 3), None, None, None, None, True, 0.1, 1e-5),
            RuntimeError,
            "input tensor must have at least one element",
        ),
        (
            lambda: aten.native_batch_norm(ones(2, 3, dtype=torch.int32), None, None, None, None, True, 0.1, 1e-5),
            NotImplementedError,
            "\"batch_norm\" not implemented for 'Int'",
        ),
        (
            lambda: aten.native_batch_norm(ones(2, 3).double(), ones(3), None, None, None, True, 0.1, 1e-5),
            RuntimeError,
            "mixed dtype",
        ),
        (
            lambda: aten.native_batch_norm(ones(2, 3), ones(3, device="cpu"), None, None, None, True, 0.1, 1e-5),
            RuntimeError,
            "Expected all tensors to be on the same device, but got weight is on cpu",
        ),
        pytest.param(
            lambda: aten.native_batch_norm(
                ones(2, 3), None, None, ones(3, device="openreg:1"), ones(3, device="openreg:1"), True, 0.1, 1e-5
            ),
            RuntimeError,
            "Expected all tensors to be on the same device, but got running_mean is on openreg:1",
            marks=pytest.mark.needs("two devices"),
        ),
        (
            lambda: aten.native_batch_norm_backward(
                ones(2, 4), ones(2, 3), None, None, None, ones(3), ones(3), True, 1e-5, [True] * 3
            ),
            RuntimeError,
            r"batch norm: the gradient has shape \[2, 4\], and the input \[2, 3\]",
        ),
        (
            lambda: aten.native_batch_norm_backward(
                ones(2, 3), ones(2, 3), None, None, None, None, None, True, 1e-5, [True] * 3
            ),
            ValueError,
            "batch norm was not given save_mean and save_invstd, and needs them here",
        ),
        (
            lambda: aten.native_batch_norm_backward(
                ones(2, 3), ones(2, 3), None, None, None, ones(2), ones(3), True, 1e-5, [True] * 3
            ),
            RuntimeError,
            "save_mean should contain 3 elements",
        ),
        (
            lambda: torch.native_group_norm(ones(2, 6), None, None, 2, 6, 1, 4, 1e-5),
            RuntimeError,
            r"divisible by num_groups, but got input of shape \[2, 6\] and num_groups=4",
        ),
        (
            lambda: torch.native_group_norm(ones(2, 6), None, None, 2, 6, 1, 0, 1e-5),
            RuntimeError,
            "Expected num groups to be greater than 0, got 0",
        ),
        (
            lambda: torch.native_group_norm(ones(2, 6), None, None, 4, 6, 1, 2, 1e-5),
            RuntimeError,
            r"4 samples with 6 channels of 1 positions were said to be in an input of shape \[2, 6\]",
        ),
        (
            lambda: torch.native_group_norm(ones(2, 6), ones(5), None, 2, 6, 1, 2, 1e-5),
            RuntimeError,
            r"Expected weight and bias to be vectors .* got one of shape \[5\] and input of shape \[2, 6\]",
        ),
        (
            lambda: torch.native_group_norm(ones(2, 6, dtype=torch.int32), None, None, 2, 6, 1, 2, 1e-5),
            NotImplementedError,
            "not implemented for 'Int'",
        ),
        (
            lambda: aten.native_group_norm_backward(
                ones(2, 6), ones(2, 6), ones(2, 3), ones(2, 2), None, 2, 6, 1, 2, [True, False, False]
            ),
            RuntimeError,
            r"group norm: mean and rstd have 4 elements, .* not shape \[2, 3\]",
        ),
        (
            lambda: aten.native_group_norm_backward(
                ones(2, 5), ones(2, 6), ones(2, 2), ones(2, 2), None, 2, 6, 1, 2, [True, False, False]
            ),
            RuntimeError,
            r"group norm: the gradient has shape \[2, 5\], and the input \[2, 6\]",
        ),
        (
            lambda: aten.native_group_norm_backward(
                ones(2, 6, dtype=torch.float64), ones(2, 6, dtype=torch.float64), ones(2, 2), ones(2, 2), None,
                2, 6, 1, 2, [True, False, False]
            ),
            RuntimeError,
            "mixed dtype",
        ),
    ],
)  # fmt: skip
def test_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
    assert (ones(2) + 1).tolist() == [2.0, 2.0]  # the device still works


def test_running_statistics_in_place_of_others() -> None:
    """The running statistics are two columns of one tensor."""
    x = torch.randn(6, 4)
    results: list[list[Any]] = []
    for to in (there, here):
        both = to(torch.ones(4, 2))
        output, *_ = aten.native_batch_norm(to(x), None, None, both[:, 0], both[:, 1], True, 0.5, 1e-5)
        results.append([output, both])
    same(results[0], results[1], torch.float32)


@pytest.mark.needs("queue")
def test_they_are_queued() -> None:
    """Evaluation too, which saves empty statistics."""
    x, weight = torch.randn(4, 4, device="openreg"), torch.ones(4, device="openreg")
    for call in (
        lambda: functional.batch_norm(x, None, None, weight, training=True),
        lambda: functional.batch_norm(x, weight, weight, weight),
        lambda: functional.group_norm(x, 2, weight),
        lambda: functional.layer_norm(x, (4,), weight),
    ):
        assert_queued(call)


def test_on_two_devices_and_several_threads() -> None:
    x = torch.randn(16, 4, 3)
    expected = functional.batch_norm(functional.group_norm(x, 2), None, None, training=True)
    results: list[Tensor] = []

    def work(index: int) -> None:
        device = DEVICES[index % len(DEVICES)]
        with torch.Stream(device):
            for _ in range(20):
                normalized = functional.group_norm(x.to(device), 2)
                results.append(functional.batch_norm(normalized, None, None, training=True).cpu())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    for result in results:
        torch.testing.assert_close(result, expected, rtol=2e-5, atol=2e-5)


def test_the_derivative_of_a_layer_norm_is_given_the_sizes_of_the_forward() -> None:
    """The CPU's reads beyond the end of a smaller tensor, and the process may crash."""
    x, rows = torch.ones(2, 3, device="openreg"), torch.ones(2, 1, device="openreg")
    backward = torch.ops.aten.native_layer_norm_backward
    assert backward(x, x, [3], rows, rows, None, None, [True, False, False])[0].shape == (2, 3)
    for grad, mean, rstd in ((x[:1], rows, rows), (x, rows[:1], rows), (x, rows, torch.ones(1000, device="openreg"))):
        with pytest.raises(RuntimeError, match=r"expected a gradient of shape \[2, 3\] and statistics of 2 rows"):
            backward(grad, x, [3], mean, rstd, None, None, [True, True, True])
