"""Convolutions and their gradients, compared with the CPU."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.offers import LAST_DEVICE

CASES: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "one dimension": (functional.conv1d, (2, 4, 9), (6, 4, 3), {"stride": 2, "padding": 1}),
    "two": (functional.conv2d, (2, 4, 7, 6), (6, 4, 3, 2), {"padding": (1, 0), "dilation": (2, 1)}),
    "three": (functional.conv3d, (1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"stride": (1, 2, 1)}),
    "groups": (functional.conv2d, (2, 4, 5, 5), (8, 2, 3, 3), {"groups": 2}),
    "each channel by itself": (functional.conv2d, (2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "padding": "same"}),
    "without a batch": (functional.conv2d, (4, 5, 5), (6, 4, 1, 1), {}),
    "an empty batch": (functional.conv2d, (0, 4, 5, 5), (6, 4, 3, 3), {}),
    "transposed": (functional.conv_transpose2d, (2, 4, 5, 4), (4, 3, 3, 2), {"stride": 2, "output_padding": 1}),
    "transposed, grouped": (functional.conv_transpose1d, (2, 4, 6), (4, 2, 3), {"groups": 2, "dilation": 2}),
    "transposed, three": (functional.conv_transpose3d, (1, 2, 3, 3, 3), (2, 3, 2, 2, 2), {"padding": 1}),
}


def results(device: str, case: str, dtype: torch.dtype, bias: bool, memory_format: torch.memory_format) -> Any:
    """The output, and the gradients of input, weight and bias."""
    function, input_size, weight_size, options = CASES[case]
    generator = torch.Generator().manual_seed(1)
    groups = options.get("groups", 1)
    channels = weight_size[1] * groups if "transposed" in case else weight_size[0]
    sizes = [input_size, weight_size, *([(channels,)] if bias else [])]
    leaves = []
    for size in sizes:
        tensor = torch.randn(size, generator=generator).to(dtype)
        if len(size) == 4:
            tensor = tensor.to(memory_format=memory_format)
        leaves.append(tensor.to(device).requires_grad_())
    output = function(*leaves, **options)
    weights = torch.randn(output.shape, generator=generator).to(dtype).to(device)
    return [output, *torch.autograd.grad(output, leaves, weights)]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels last"])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_convolution_and_its_gradients(
    case: str, dtype: torch.dtype, bias: bool, memory_format: torch.memory_format
) -> None:
    expected = results("cpu", case, dtype, bias, memory_format)
    actual = results("openreg", case, dtype, bias, memory_format)
    for one, other in zip(actual, expected, strict=True):
        assert one.device.type == "openreg"
        assert one.stride() == other.stride()
        torch.testing.assert_close(one.cpu(), other)


def test_only_the_gradients_that_are_wanted_are_computed() -> None:
    grad, x, weight = torch.randn(2, 6, 3, 3), torch.randn(2, 4, 5, 5), torch.randn(6, 4, 3, 3)
    rest = ([6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    backward = torch.ops.aten.convolution_backward
    expected = backward(grad, x, weight, *rest, [True] * 3)
    for wanted in itertools.product([True, False], repeat=3):
        found = backward(*(tensor.to("openreg") for tensor in (grad, x, weight)), *rest, wanted)
        assert [one is not None for one in found] == list(wanted)
        for one, other in zip(found, expected, strict=True):
            if one is not None:
                torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-4)


def test_a_second_derivative() -> None:
    def second(device: str) -> torch.Tensor:
        x = torch.linspace(-1, 1, 32).reshape(1, 2, 4, 4).to(device).requires_grad_()
        weight = torch.linspace(-1, 1, 24).reshape(3, 2, 2, 2).to(device).requires_grad_()
        (first,) = torch.autograd.grad(functional.conv2d(x, weight).pow(3).sum(), x, create_graph=True)
        (result,) = torch.autograd.grad(first.pow(2).sum(), weight)
        return result

    torch.testing.assert_close(second("openreg").cpu(), second("cpu"))


def test_on_the_second_device() -> None:
    x, weight = torch.randn(1, 2, 5, device=LAST_DEVICE), torch.randn(3, 2, 2, device=LAST_DEVICE)
    output = functional.conv1d(x, weight)
    assert output.device == torch.device(LAST_DEVICE)
    torch.testing.assert_close(output.cpu(), functional.conv1d(x.cpu(), weight.cpu()))


def test_what_is_wrong_is_what_is_wrong_on_the_cpu() -> None:
    for arguments, options in (
        (((1, 2, 5, 5), (3, 4, 2, 2)), {}),
        (((1, 2, 5, 5), (3, 2, 7, 7)), {}),
        (((1, 2, 5, 5), (3, 2, 2, 2)), {"stride": 0}),
        (((1, 3, 5, 5), (4, 1, 2, 2)), {"groups": 2}),
    ):
        messages = []
        for device in ("cpu", "openreg"):
            with pytest.raises(RuntimeError) as raised:
                functional.conv2d(*(torch.ones(size, device=device) for size in arguments), **options)
            messages.append(str(raised.value))
        assert messages[0] == messages[1]


needs_kernels = pytest.mark.skipif(
    "aten::_foreach_add_.List" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
    reason="this build has no kernels: all convolutions are computed on the CPU",
)


@pytest.mark.needs("host kernels")
@needs_kernels
@pytest.mark.parametrize("case", CASES)
def test_floating_point_does_not_fall_back(case: str) -> None:
    torch.openreg.reset_fallback_stats()
    results("openreg", case, torch.float32, True, torch.channels_last)
    assert torch.openreg.fallback_stats() == {}


def test_integers_fall_back() -> None:
    signal = torch.arange(4, device="openreg").view(1, 1, 4)
    filters = torch.ones(1, 1, 2, dtype=torch.int64, device="openreg")
    torch.openreg.reset_fallback_stats()
    assert functional.conv1d(signal, filters).tolist() == [[[1, 3, 5]]]
    assert torch.openreg.fallback_stats() == {"aten::convolution": 1}
    backward = torch.ops.aten.convolution_backward_overrideable
    arguments = (signal[:, :, 1:], signal, filters, [1], [0], [1], False, [0], 1, [True] * 3)
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):  # nor on the CPU
        backward(*arguments)


def test_on_another_stream() -> None:
    x, weight = torch.randn(1, 2, 6, 6), torch.randn(3, 2, 3, 3)
    stream = torch.openreg.Stream()
    on_device = [tensor.to("openreg") for tensor in (x, weight)]
    stream.wait_stream(torch.openreg.current_stream())
    with stream:
        output = functional.conv2d(*on_device)
    stream.synchronize()
    torch.testing.assert_close(output.cpu(), functional.conv2d(x, weight))


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_three_dimensions_channels_last(dtype: torch.dtype) -> None:
    """The result has the input's memory format. On the CPU that depends on the dtype and the processor."""
    x = torch.randn(2, 3, 4, 5, 6).to(dtype).to(memory_format=torch.channels_last_3d)
    weight = torch.randn(4, 3, 2, 2, 2).to(dtype)
    output = functional.conv3d(x.to("openreg"), weight.to("openreg"))
    assert output.is_contiguous(memory_format=torch.channels_last_3d)
    torch.testing.assert_close(output.cpu(), functional.conv3d(x, weight), check_stride=False)


@pytest.mark.needs("host kernels")
def test_devices_and_dtypes_that_differ() -> None:
    signal, filters = torch.ones(1, 1, 3, device="openreg"), torch.ones(1, 1, 2)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but got weight is on cpu"):
        functional.conv1d(signal, filters)
    with pytest.raises(RuntimeError, match=r"expected scalar type|should be the same"):
        functional.conv1d(signal, filters.double().to("openreg"))
    functional.conv1d(signal, filters.to("openreg"))


@needs_kernels
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"stride": [1, 1]}, "should have one number for each dimension"),
        ({"groups": 0}, "groups, stride and dilation should be positive, but are 0"),
        ({"dilation": [0]}, r"groups, stride and dilation should be positive, but are 1, \[1\] and \[0\]"),
        ({"weight": (3, 4, 2)}, r"an input of shape \[1, 2, 5\] does not go with a weight of shape \[3, 4, 2\]"),
        ({"groups": 2}, "does not go with a weight"),
        ({"padding": [-1]}, r"padding and output_padding should not be negative, but are \[-1\] and \[0\]"),
        ({"weight": (3, 2, 9)}, r"would give an output of shape \[1, 3, -3\]"),
        ({"weight": (3, 2, 0)}, r"a weight of shape \[3, 2, 0\] would give an output of shape \[1, 3, 6\]"),
        (
            {"transposed": True, "weight": (2, 3, 2), "output_padding": [1]},
            r"output padding must be smaller than either stride or dilation, but got \[1\], \[1\] and \[1\]",
        ),
        ({"bias": (2,)}, "the bias should be a vector of 3 elements"),
    ],
)
def test_the_operator_called_by_itself_checks_its_arguments(changes: dict[str, Any], why: str) -> None:
    """aten::convolution checks them, but this operator can be called directly, and the library trusts its caller."""
    arguments: dict[str, Any] = {"weight": (3, 2, 2), "bias": (3,), "stride": [1], "padding": [0], "dilation": [1]}
    arguments |= {"transposed": False, "output_padding": [0], "groups": 1} | changes
    for name in ("weight", "bias"):
        arguments[name] = torch.ones(arguments[name], device="openreg")
    with pytest.raises(RuntimeError, match=why):
        torch.ops.aten.convolution_overrideable(torch.ones(1, 2, 5, device="openreg"), **arguments)


@needs_kernels
def test_a_gradient_of_another_shape() -> None:
    x, weight = torch.ones(1, 2, 5, device="openreg"), torch.ones(3, 2, 2, device="openreg")
    with pytest.raises(RuntimeError, match=r"the gradient has shape \[1, 2, 5\], and the output \[1, 3, 4\]"):
        torch.ops.aten.convolution_backward_overrideable(x, x, weight, [1], [0], [1], False, [0], 1, [True] * 3)
