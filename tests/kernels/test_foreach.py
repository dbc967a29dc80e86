"""Operators on lists of tensors, compared with the CPU: PyTorch's samples, and what one launch must not change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal import common_methods_invocations as database
from torch.utils import _pytree as pytree

from tests.layouts import to_device
from tests.offers import LAST_DEVICE

pytestmark = [
    pytest.mark.usefixtures("nothing_falls_back"),
    pytest.mark.skipif(
        "aten::_foreach_add_.List" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
        reason="this build has no kernels",
    ),
]
FAMILIES = ("unary", "binary", "pointwise", "reduce", "other")
OPERATORS = [info for family in FAMILIES for info in getattr(database, f"foreach_{family}_op_db")]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.complex64]


def on(device: str, values: Any) -> Any:
    return pytree.tree_map(lambda value: value.detach().clone().to(device) if torch.is_tensor(value) else value, values)


def outcome(device: str, operator: Callable[..., Any], sample: Any) -> Any:
    """The result and the lists after the call, on the CPU; or the type and message of the exception."""
    options = {name: value for name, value in sample.kwargs.items() if not name.endswith("fastpath")}
    tensors, arguments = on(device, sample.input), on(device, sample.args)
    try:
        result = operator(tensors, *arguments, **on(device, options))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return on("cpu", [result, tensors])


def variants(info: Any) -> Iterator[Callable[..., Any]]:
    return (variant for variant in (info.method_variant, info.inplace_variant) if variant is not None)


# PyTorch warns once per process, for a norm of one complex number.
@pytest.mark.filterwarnings("ignore:Casting complex values to real discards the imaginary part:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("info", OPERATORS, ids=lambda info: info.name)
def test_the_samples_of_pytorch(info: Any, dtype: torch.dtype) -> None:
    tried = 0
    for sample in info.sample_inputs("cpu", dtype, requires_grad=False):
        for operator in variants(info):
            expected, actual = (outcome(device, operator, sample) for device in ("cpu", "openreg"))
            if isinstance(expected, str) or isinstance(actual, str):
                assert actual == expected
            else:
                torch.testing.assert_close(actual, expected, equal_nan=True)
            tried += 1
    assert tried > 0


def lists(*counts: int) -> list[list[torch.Tensor]]:
    return [[torch.randn(3, 2, device="openreg") for _ in range(count)] for count in counts]


def operators(function: Callable[[], Any]) -> list[str]:
    """The operators that the call dispatches, itself included."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        function()
    return [event.name for event in profiler.events() if event.name.startswith("aten::")]


def test_one_launch() -> None:
    first, second = lists(4, 4)
    assert operators(lambda: torch._foreach_add_(first, second)) == ["aten::_foreach_add_"]
    mixed = [torch.ones(2, device="openreg"), torch.ones(2, device="openreg", dtype=torch.float64)]
    assert operators(lambda: torch._foreach_neg_(mixed)) == ["aten::_foreach_neg_", "aten::neg_", "aten::neg_"]


@pytest.mark.parametrize("number", [torch.tensor(2.0), torch.tensor(2.0, device="openreg")], ids=["host", "device"])
def test_a_number_in_a_tensor(number: torch.Tensor) -> None:
    (tensors,) = lists(4)
    expected = [2.0 * tensor.cpu() for tensor in tensors]
    torch._foreach_mul_(tensors, number)
    number.fill_(9.0)  # the kernel already has the number, or the stream runs this later
    torch.testing.assert_close([tensor.cpu() for tensor in tensors], expected)


def test_views_of_one_memory() -> None:
    """The tensors of a list are processed in order, so overlapping tensors get the CPU's values."""
    for device in ("cpu", "openreg"):
        memory = torch.arange(6.0, device=device)
        torch._foreach_mul_([memory[:4], memory[2:]], 2.0)
        assert memory.tolist() == [0.0, 2.0, 8.0, 12.0, 8.0, 10.0]
        torch._foreach_add_([memory, memory], [memory, memory])
        assert memory.tolist() == [0.0, 8.0, 32.0, 48.0, 32.0, 40.0]


def test_a_number_that_the_call_changes() -> None:
    for device in ("cpu", "openreg"):
        number, other = torch.tensor(3.0, device=device), torch.ones(3, device=device)
        torch._foreach_mul_([number, other], number)
        assert (number.item(), other.tolist()) == (9.0, [9.0, 9.0, 9.0])
        memory = torch.arange(2.0, 6.0, device=device)
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
            torch._foreach_mul_([memory[:2], memory[2:]], memory[1])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda first, second: second.pop(), "Tensor lists must have the same number of tensors, got 3 and 2"),
        (lambda first, second: (first.clear(), second.clear()), "Tensor list must have at least one tensor."),
        (
            lambda first, second: second.__setitem__(1, torch.ones(5, device="openreg")),
            r"The size of tensor a \(2\) must match the size of tensor b \(5\) at non-singleton dimension 1",
        ),
        pytest.param(
            lambda first, second: second.__setitem__(1, torch.ones(3, 2, device="openreg:1")),
            "Expected all tensors to be on the same device, but found at least two devices",
            marks=pytest.mark.needs("two devices"),
        ),
        (
            lambda first, second: first.__setitem__(0, torch.ones(1, device="openreg").expand(3, 2)),
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location",
        ),
    ],
)
def test_lists_that_do_not_fit(change: Callable[[Any, Any], Any], why: str) -> None:
    first, second = lists(3, 3)
    change(first, second)
    with pytest.raises(RuntimeError, match=why):
        torch._foreach_add_(first, second)
    torch.openreg.synchronize()


def test_a_number_that_the_dtype_has_not() -> None:
    """Refused at the call, for one number and for the second of two: an error in a kernel would stop the device."""
    tensors = [torch.ones(2, device="openreg", dtype=torch.float16) for _ in range(2)]
    torch._foreach_clamp_max_(tensors, [1.0, 2.0])
    for numbers in (1e30, [1.0, 1e30]):
        with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Half without overflow"):
            torch._foreach_clamp_max_(tensors, numbers)
    torch.openreg.synchronize()


def test_mixed_lists_are_worked_off_one_by_one() -> None:
    """Two devices and two dtypes in one list."""
    tensors = [torch.ones(2, device="openreg"), torch.ones(2, device=LAST_DEVICE, dtype=torch.float64)]
    torch._foreach_add_(tensors, 1.0)
    assert [tensor.tolist() for tensor in tensors] == [[2.0, 2.0], [2.0, 2.0]]
    assert [str(tensor.device) for tensor in torch._foreach_neg(tensors)] == ["openreg:0", LAST_DEVICE]


def test_on_the_second_device_and_another_stream() -> None:
    stream = torch.openreg.Stream(LAST_DEVICE)
    with stream:
        tensors = [torch.ones(2, device=LAST_DEVICE) for _ in range(3)]
        results = torch._foreach_exp(tensors)
    stream.synchronize()
    assert {str(result.device) for result in results} == {LAST_DEVICE}
    torch.testing.assert_close([result.cpu() for result in results], [torch.ones(2).exp()] * 3)


def test_results_have_the_strides_of_the_cpu() -> None:
    """A view may have any stride in a dimension of size 1. Its effect on the result differs between operators."""
    models = [
        torch.arange(6.0).as_strided((3, 1), (1, 17)),
        torch.arange(6.0).as_strided((1, 3), (1, 1)),
        torch.arange(6.0).view(2, 3, 1).transpose(1, 2),
        torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last),
        torch.arange(6.0).view(1, 2, 3, 1).to(memory_format=torch.channels_last),
        torch.arange(12.0).view(3, 4).t(),
    ]
    for model in models:
        for name, *arguments in (("abs",), ("add", 2.0), ("pow", 2.0), ("clamp_min", 2.0), ("addcmul", 2.0)):
            operator, lists = getattr(torch, f"_foreach_{name}"), 3 if name == "addcmul" else 1
            (here,), (there,) = (
                operator(*[[to_device(model, device)]] * lists, *arguments) for device in ("openreg", "cpu")
            )
            assert (name, here.stride()) == (name, there.stride())
            assert here.cpu().equal(there)


def test_a_change_in_place_is_counted() -> None:
    """The version counter tells autograd that a saved tensor was modified."""
    for name, *arguments in (("zero_",), ("add_", 1.0), ("sqrt_",)):
        tensors = [torch.ones(3, device="openreg"), torch.ones(2, device="openreg")]
        getattr(torch, f"_foreach_{name}")(tensors, *arguments)
        assert (name, [tensor._version for tensor in tensors]) == (name, [1, 1])
    leaf, factor = torch.ones(2, device="openreg", requires_grad=True), torch.ones(2, device="openreg")
    product = leaf * factor
    torch._foreach_zero_([factor])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_gradients() -> None:
    leaves = [torch.ones(2, device="openreg", requires_grad=True) for _ in range(2)]
    torch.stack(torch._foreach_norm(torch._foreach_mul(leaves, 3.0))).sum().backward()
    for leaf in leaves:
        torch.testing.assert_close(leaf.grad.cpu(), torch.full((2,), 3 / 2**0.5))


def test_norms_of_a_model_are_clipped() -> None:
    def clipped(device: str, foreach: bool) -> list[torch.Tensor]:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
        model.to(device)(torch.ones(3, 4, device=device)).square().sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=foreach)
        return [norm.cpu(), *(parameter.grad.cpu() for parameter in model.parameters())]

    torch.testing.assert_close(clipped("openreg", True), clipped("cpu", False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_arithmetic_is_that_of_the_cpu(dtype: torch.dtype) -> None:
    """Bit for bit: the loops are the library's, and a number has its own precision beside 16 bits."""
    shapes = [(5, 17), (), (1,), (3, 1, 2), (4096,)]
    a, b, c = ([(torch.rand(shape) + 0.5).to(dtype) for shape in shapes] for _ in range(3))
    a[0], b[0], c[0] = (x[0].t() for x in (a, b, c))
    numbers: list[Any] = [0.1, 3, -7, 1e-3, [0.1, 2, -0.3, 5.0, 1e-4]]
    for number in numbers:
        for name in ("add", "sub", "mul", "div"):
            compare(name, a, number)
        compare("lerp", a, b, number)
        for name in ("addcmul", "addcdiv"):
            compare(name, a, b, c, number)
    for alpha in (1, 0.3, -2):
        compare("add", a, b, alpha=alpha)
        compare("sub", a, b, alpha=alpha)
    for name in ("mul", "div", "maximum", "minimum"):
        compare(name, a, b)
        compare(name, a, a)
    compare("lerp", a, b, c)
    signed = [*(x - 1 for x in a), torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0], dtype=dtype)]
    for name in ("abs", "neg", "sign", "sqrt", "rsqrt", "reciprocal"):
        compare(name, a)
        compare(name, signed)
    for name in ("clamp_min", "clamp_max"):
        compare(name, signed, 0.1)
        compare(name, a, [0.1, 2, 0.7, 1.25, -1.0])
    for name in ("mul", "div"):
        compare(name, a, torch.tensor(0.3, dtype=dtype))
        compare(name, signed, torch.tensor(math.inf, dtype=dtype))
    there = on("openreg", signed)
    torch._foreach_zero_(there)
    for tensor in on("cpu", there):
        assert torch.equal(tensor, torch.zeros_like(tensor))
        assert not tensor.signbit().any()


def compare(name: str, *arguments: Any, **options: Any) -> None:
    """Compares the operator that returns new tensors and the one in place with the CPU's."""
    for suffix in ("", "_"):
        operator = getattr(torch, f"_foreach_{name}{suffix}")
        outcomes = []
        for device in ("cpu", "openreg"):
            known: dict[int, Any] = {}
            moved = [known.setdefault(id(argument), on(device, argument)) for argument in arguments]
            result = operator(*moved, **options)
            outcomes.append(on("cpu", [moved[0], result]))
        for here, there in zip(*map(pytree.tree_leaves, outcomes), strict=True):
            if here is None:
                continue
            assert here.stride() == there.stride()
            # In place, and only there, the CPU rounds the number to 16 bits before it multiplies.
            rounds = name == "mul" and suffix == "_" and here.itemsize == 2
            bound = None if rounds else 0
            torch.testing.assert_close(there, here, rtol=bound, atol=bound, equal_nan=True)


def test_a_number_too_large_for_a_half() -> None:
    """Some of the CPU's loops refuse such a number, and others compute with it."""
    for number in (70000.0, [1.0, 70000.0]):
        halves = [torch.ones(3, dtype=torch.float16) for _ in range(2)]
        compare("mul", halves, number)
        compare("add", halves, number)
        compare("addcmul", halves, halves, halves, number)
        compare("mul", [half.float() for half in halves], number)
    there = on("openreg", halves)
    with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Half without overflow"):
        torch._foreach_add_(there, there, alpha=70000.0)
    torch.openreg.synchronize()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_a_number_that_is_still_computed(dtype: torch.dtype) -> None:
    """The kernel reads it when it runs; a number of the host is read at the call."""
    tensors = [torch.rand(3, 2).to(dtype) for _ in range(3)]
    number, of_host = torch.ones((), dtype=dtype, device="openreg"), torch.tensor(0.3, dtype=dtype)
    there = on("openreg", tensors)
    torch.openreg._sleep(30_000_000)
    number.mul_(0.7)
    results = torch._foreach_mul(there, number), torch._foreach_div(there, of_host)
    number.fill_(9)
    of_host.fill_(9)
    expected = (
        torch._foreach_mul(tensors, torch.tensor(0.7, dtype=dtype)),
        torch._foreach_div(tensors, torch.tensor(0.3, dtype=dtype)),
    )
    torch.testing.assert_close(on("cpu", results), list(map(tuple, expected)), rtol=0, atol=0)


def test_queued_arithmetic_keeps_its_numbers_and_lists() -> None:
    """The kernel runs when the lists, and the last references to them, are gone."""
    (tensors,) = lists(3)
    expected = [(tensor * 2.5 + 1).cpu() for tensor in tensors]
    torch.openreg._sleep(30_000_000)
    factors = [2.5, 2.5, 2.5]
    results = torch._foreach_mul(tensors, factors)
    factors.clear()
    del tensors
    torch._foreach_add_(results, [torch.ones(3, 2, device="openreg") for _ in range(3)])
    torch.testing.assert_close([result.cpu() for result in results], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["clamp_min", "clamp_max"])
def test_a_limit_that_is_no_number(name: str, dtype: torch.dtype) -> None:
    host = [torch.tensor([1.0, 2.0, -3.0], dtype=dtype), torch.tensor([[4.0]], dtype=dtype)]
    for number in (float("nan"), [float("nan"), 1.5], 0.5):
        expected = getattr(torch, f"_foreach_{name}")(host, number)
        result = getattr(torch, f"_foreach_{name}")([one.to("openreg") for one in host], number)
        for here, there in zip(result, expected, strict=True):
            torch.testing.assert_close(here.cpu(), there, equal_nan=True)
