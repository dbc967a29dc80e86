"""Compiled functions give the results and gradients of eager PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it

from tests.compile.compared import assert_equal_calls, assert_same
from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.usefixtures("inductor")


def chain(x: Tensor) -> Tensor:
    """Three loops that become one."""
    return (x * 2 + 1).relu().sin()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pointwise_chain(dtype: torch.dtype) -> None:
    assert_same(chain, torch.randn(33, 70, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_chain_rounds_once(dtype: torch.dtype) -> None:
    compiled = torch.compile(chain, fullgraph=True)
    x = torch.randn(33, 70, dtype=dtype)
    assert_equal_calls(compiled, lambda x: chain(x.float()).to(dtype), x, device=LAST_DEVICE)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers(dtype: torch.dtype) -> None:
    assert_same(lambda x: (x.long() * 3 + 1).sum(0), torch.randint(0, 2, (9, 17)).to(dtype))


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "empty": lambda x: x[:0],
    "0-dim": lambda x: x[0, 0],
    "transposed": lambda x: x.t()[1:],
    "strided": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1].expand(5, 6),
}


@pytest.mark.parametrize("view", VIEWS)
def test_layouts(view: str) -> None:
    compiled = torch.compile(lambda x: (x + 1).sin(), fullgraph=True)
    x = torch.randn(8, 6)
    given, expected = VIEWS[view](x.to(LAST_DEVICE)), VIEWS[view](x)
    assert given.stride() == expected.stride()
    torch.testing.assert_close(compiled(given).cpu(), (expected + 1).sin())


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "softmax": (lambda x: torch.softmax(x * 2 + 1, -1), ((9, 70),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (70,), w, b), ((9, 70), (70,), (70,))),
    "product, then gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), ((9, 70), (20, 70), (20,))),
    "attention": (F.scaled_dot_product_attention, ((2, 4, 16, 8),) * 3),
    "attention in parts": (lambda q, k, v: torch.softmax(q @ k.mT / 3, -1) @ v, ((2, 16, 8),) * 3),
    "convolution": (lambda x, w: torch.conv2d(x, w).relu(), ((2, 3, 8, 8), (4, 3, 3, 3))),
    "loss": (lambda x, y: (F.log_softmax(x, -1) * y).mean(), ((9, 7), (9, 7))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_gradients(name: str) -> None:
    function, sizes = FUNCTIONS[name]
    assert_same(function, *(torch.randn(size, requires_grad=True) for size in sizes))


def test_indices_that_repeat() -> None:
    index = torch.tensor([0, 2, 2, 1, 0, 2])
    assert_same(lambda x, index: torch.zeros_like(x).index_add(0, index, x)[index], torch.randn(6, 5), index)


def test_a_scan_and_a_sort() -> None:
    assert_same(lambda x: torch.cat([x, x * 2]).cumsum(0).sort(-1)[0] + 1, torch.randn(6, 5))


def test_sizes_that_change_compile_once() -> None:
    compiled = torch.compile(lambda x: (x + x.shape[0]).sum(0), dynamic=True, fullgraph=True)
    with torch.compiler.set_stance("default"):
        assert_equal_calls(compiled, lambda x: (x + x.shape[0]).sum(0), torch.randn(9, 17), device=LAST_DEVICE)
    with torch.compiler.set_stance("fail_on_recompile"):
        for size in ((5, 17), (30, 3)):
            assert_equal_calls(compiled, lambda x: (x + x.shape[0]).sum(0), torch.randn(size), device=LAST_DEVICE)


def test_numbers_of_the_host() -> None:
    assert_same(lambda x, factor: x * factor, torch.randn(6), 3.5)


def test_a_cpu_scalar_is_read_at_the_call() -> None:
    compiled = torch.compile(lambda x, scale: x * scale + scale)
    x, scale = torch.randn(6), torch.tensor(2.5)
    on_device = x.to(LAST_DEVICE)
    torch.openreg._sleep(10_000_000)
    result = compiled(on_device, scale)
    scale.fill_(7)
    torch.testing.assert_close(result.cpu(), x * 2.5 + 2.5)


def test_a_graph_with_cpu_and_device() -> None:
    def both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.sin() + 1, y.sin() + 1, x * 3 + (y * 2).cos().to(x.device)

    x, y = torch.randn(6), torch.randn(6)
    on_device, on_host, mixed = torch.compile(both, fullgraph=True)(x.to(LAST_DEVICE), y)
    torch.testing.assert_close(on_device.cpu(), x.sin() + 1)
    torch.testing.assert_close(on_host, y.sin() + 1)
    torch.testing.assert_close(mixed.cpu(), x * 3 + (y * 2).cos())


def test_both_branches_of_cond() -> None:
    def either(x: Tensor) -> Tensor:
        result: Tensor = torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))
        return result

    compiled = torch.compile(either, fullgraph=True)
    x = torch.rand(6)
    torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), x.sin() + 1)
    torch.testing.assert_close(compiled(-x.to(LAST_DEVICE)).cpu(), (-x).cos() * 2)


def test_a_loop_whose_end_depends_on_values() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def doubled_until_large(x: Tensor) -> Tensor:
        result: Tensor = while_loop(lambda x: x.sum() < 100, lambda x: (x * 2,), (x,))[0]
        return result

    compiled = torch.compile(doubled_until_large, fullgraph=True)
    for first in (1.0, 30.0, 200.0):
        x = torch.tensor([first, first / 2])
        torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), doubled_until_large(x))


def test_a_graph_break() -> None:
    def broken(x: Tensor) -> Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y.sin()

    assert_equal_calls(torch.compile(broken), lambda x: (x + 1).sin(), torch.randn(6), device=LAST_DEVICE)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("dimensions", "form"),
    [
        (1, torch.contiguous_format),
        (2, torch.contiguous_format),
        (2, torch.channels_last),
        (3, torch.contiguous_format),
        (3, torch.channels_last_3d),
    ],
)
def test_convolutions_have_the_strides_that_were_predicted(
    dimensions: int, form: torch.memory_format, transposed: bool
) -> None:
    kind = ("conv_transpose" if transposed else "conv") + f"{dimensions}d"

    def function(x: Tensor, weight: Tensor) -> Tensor:
        result: Tensor = getattr(torch.nn.functional, kind)(x.relu(), weight, stride=2, padding=1) * 2
        return result

    x = torch.randn(2, 4, *[6] * dimensions).to(memory_format=form)
    weight = torch.randn(4, 4, *[3] * dimensions).to(memory_format=form)
    assert_same(function, x.requires_grad_(), weight.requires_grad_())
    compiled = torch.compile(function, fullgraph=True)
    with torch.no_grad():
        assert compiled(x.to(LAST_DEVICE), weight.to(LAST_DEVICE)).stride() == function(x, weight).stride()


def test_a_number_comes_first() -> None:
    x = torch.randn(5)
    compiled = torch.compile(lambda x, s: s - x, fullgraph=True)
    for number in (1.5, 2.5, -3.0):  # from the second on, the number is an input of the graph
        torch.testing.assert_close(compiled(x.to(LAST_DEVICE), number).cpu(), number - x)
    scalar = torch.tensor(2.5)
    functions: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
        lambda s, x: s * x,
        torch.maximum,
        torch.pow,
        lambda s, x: torch.addcmul(s, x, x),
        lambda s, x: torch.lerp(x, x * 2, s),
    )
    for function in functions:
        result = torch.compile(function, fullgraph=True)(scalar, x.to(LAST_DEVICE))
        torch.testing.assert_close(result.cpu(), function(scalar, x), equal_nan=True)


def test_a_number_comes_first_and_no_memory_of_the_device_is_read() -> None:
    scalar = torch.tensor(2.5)
    functions: tuple[Callable[..., Tensor], ...] = (
        lambda s, ones, count: s - count(3),
        lambda s, ones, count: (s * ones(3)).cumsum(0),
        lambda s, ones, count: s ** count(3),
        lambda s, ones, count: ones(3, 3) @ (s * ones(3, 3)),
        lambda s, ones, count: torch.cat([s * ones(3), ones(2)]),
    )
    for function in functions:

        def on(device: str, s: Tensor, function: Callable[..., Tensor] = function) -> Tensor:
            return function(
                s, lambda *size: torch.ones(*size, device=device), lambda end: torch.arange(end, device=device)
            )

        result = torch.compile(on, fullgraph=True)(LAST_DEVICE, scalar)
        assert result.device == torch.device(LAST_DEVICE)
        torch.testing.assert_close(result.cpu(), on("cpu", scalar))


@pytest.mark.parametrize("view", [lambda x: x.permute(1, 0, 3, 2), lambda x: x.to(memory_format=torch.channels_last)])
def test_an_index_of_the_largest_is_in_logical_order(view: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(2, 3, 4, 5)
    compiled = torch.compile(lambda x: view(x).argmax() * 1000 + view(x).argmin(), fullgraph=True)
    assert compiled(x.to(LAST_DEVICE)).item() == (view(x).argmax() * 1000 + view(x).argmin()).item()


def test_a_division_by_a_constant_is_a_division() -> None:
    multiples = torch.arange(0, 41 * 500, 41.0)
    assert_same(lambda x: (x / 41).floor(), multiples)
    assert_same(lambda x: x / 1e-40, torch.tensor([0.0, 1e-40, 3.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_parts_of_a_cat_and_of_a_pad(dtype: torch.dtype) -> None:
    x, y = (torch.randint(1, 9, (7, 33)).to(dtype) for _ in range(2))
    assert_same(lambda x, y: torch.cat([x + 1, y * 2, x[:, :0]], 1) + 1, x, y)
    assert_same(lambda x, y: F.pad(x + 1, (0, 5), value=3) * 2 + F.pad(y, (2, 3)), x, y)


def test_a_convolution_with_a_bias_rounds_once() -> None:
    x, weight = torch.randn(2, 8, 12, 12).bfloat16(), torch.randn(6, 8, 3, 3).bfloat16()
    x, weight, bias = (value.to(LAST_DEVICE) for value in (x, weight, torch.randn(6).bfloat16()))
    compiled = torch.compile(F.conv2d, fullgraph=True)
    assert torch.equal(compiled(x, weight, bias).cpu(), F.conv2d(x, weight, bias).cpu())


def test_sums_by_index() -> None:
    index = torch.randint(10, (400, 6))
    assert_same(lambda x, index, y: x.scatter_add(0, index, y), torch.zeros(10, 6), index, torch.randn(400, 6))


def test_fusions_are_not_measured() -> None:
    assert_same(lambda x: x.softmax(1), torch.randn(8, 8), options={"benchmark_fusion": True})
