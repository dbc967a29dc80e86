"""The values of native kernels, compared with the CPU's. test_kernels.py runs this file in a process that has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

NUMBERS = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
BINARY = [torch.add, torch.sub, torch.mul]


@pytest.fixture(autouse=True)
def native_alone() -> Iterator[None]:
    """Forbids the fallback, unless a test allows it."""
    torch.manual_seed(0)
    torch.openreg.set_fallback_policy("listed", [])
    yield
    torch.openreg.set_fallback_policy("all")


def skip_without(dtype: torch.dtype) -> None:
    if dtype == torch.float64 and not torch.openreg.get_device_properties().has_fp64:
        pytest.skip("the device has no float64")


def values(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(sizes).to(dtype)
    return torch.randint(-1000, 1000, sizes).to(dtype)


def compare(
    function: Callable[..., torch.Tensor],
    *arguments: torch.Tensor,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    here = function(*(x.to("openreg") for x in arguments))
    torch.testing.assert_close(here.cpu(), function(*arguments), rtol=rtol, atol=atol, equal_nan=True)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, 2),
    "every other": lambda x: x[:, ::2],
    "with an offset": lambda x: x[1:, 2:, 3:],
    "permuted": lambda x: x.permute(1, 2, 0),
    "expanded": lambda x: x[:1].expand(5, 8, 33),
    "one column": lambda x: x[:, :, 7],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_abs(dtype: torch.dtype, layout: str) -> None:
    skip_without(dtype)
    base = values(4, 8, 33, dtype=dtype)
    here = LAYOUTS[layout](base.to("openreg"))
    torch.testing.assert_close(here.abs().cpu(), LAYOUTS[layout](base).abs())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_binary(dtype: torch.dtype, function: Callable[..., torch.Tensor], layout: str) -> None:
    skip_without(dtype)
    a, b = values(4, 8, 33, dtype=dtype), values(4, 8, 33, dtype=dtype)
    view = LAYOUTS[layout]
    here = function(view(a.to("openreg")), view(b.to("openreg")))
    torch.testing.assert_close(here.cpu(), function(view(a), view(b)))
    assert here.stride() == function(view(a), view(b)).stride()


FILLED = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
    torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64,
    torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]  # fmt: skip


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.cpu().reshape(-1).view(torch.uint8)


# PyTorch refuses to fill a tensor that overlaps itself.
@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"expanded"}))
@pytest.mark.parametrize("dtype", FILLED, ids=str)
def test_fill(dtype: torch.dtype, layout: str) -> None:
    for value in (1, 2.0, True):
        expected = torch.empty(4, 8, 33, dtype=dtype).fill_(3)
        here = torch.empty(4, 8, 33, dtype=dtype, device="openreg").fill_(3)
        assert torch.equal(bits(here), bits(expected))
        LAYOUTS[layout](expected).fill_(value)
        assert LAYOUTS[layout](here).fill_(value) is not None
        assert torch.equal(bits(here), bits(expected))
        LAYOUTS[layout](expected).zero_()
        LAYOUTS[layout](here).zero_()
        assert torch.equal(bits(here), bits(expected))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2)])
def test_fill_of_few_elements(shape: tuple[int, ...]) -> None:
    for value in (7, float("nan"), float("inf")):
        expected, here = torch.zeros(shape), torch.zeros(shape, device="openreg")
        assert torch.equal(bits(here.fill_(value)), bits(expected.fill_(value)))
    complex_here = torch.zeros(shape, dtype=torch.complex64, device="openreg")
    assert torch.equal(complex_here.fill_(1j).cpu(), torch.full(shape, 1j, dtype=torch.complex64))


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize(
    ("dtype", "value"), [(torch.float16, 1e5), (torch.uint8, 300), (torch.float32, 1e300), (torch.float32, 1j)]
)
def test_what_a_dtype_cannot_have_is_refused_as_on_the_cpu(dtype: torch.dtype, value: complex, count: int) -> None:
    said: list[str] = []
    for device in ("cpu", "openreg"):
        x = torch.zeros(count, dtype=dtype, device=device)
        try:
            said.append(str(bits(x.fill_(value)).tolist()))
        except RuntimeError as error:
            said.append(str(error))
    assert said[0] == said[1]


def test_a_fill_is_in_the_order_of_its_stream() -> None:
    x = torch.ones(1 << 16, device="openreg")
    for value in range(50):
        x.fill_(value)
        x.add_(1)
    assert torch.equal(x.cpu(), torch.full((1 << 16,), 50.0))


def test_special_values() -> None:
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, 3e38])
    compare(torch.abs, special)
    compare(lambda x: torch.signbit(x.abs().cpu()), special)
    compare(torch.add, special, special)
    compare(torch.mul, special, special)
    compare(lambda x: x.to(torch.bfloat16).mul(1), special)
    for dtype in (torch.int32, torch.int64):
        compare(torch.abs, torch.tensor([torch.iinfo(dtype).min, -1, 0, torch.iinfo(dtype).max], dtype=dtype))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_numbers_and_alpha(dtype: torch.dtype) -> None:
    skip_without(dtype)
    x, y = values(5, 7, dtype=dtype), values(5, 7, dtype=dtype)
    compare(lambda x: x + 3, x)
    compare(lambda x: 3 - x, x)
    compare(lambda x: x * 3, x)
    compare(lambda x: 3 * x, x)
    compare(lambda x, y: torch.add(x, y, alpha=3), x, y)
    compare(lambda x, y: torch.sub(x, y, alpha=2), x, y)
    if dtype.is_floating_point:
        compare(lambda x: x * 0.1 + 1e-3, x)


def test_number_that_is_too_large_for_the_dtype() -> None:
    compare(lambda x: x + 1e300, values(3))


@pytest.mark.parametrize(("first", "second"), [((3, 1, 5), (4, 1)), ((1,), (2, 3)), ((), (4,)), ((2, 1), (1, 70000))])
def test_broadcasting(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    compare(torch.add, values(*first), values(*second))
    compare(torch.mul, values(*second), values(*first))


@pytest.mark.parametrize("sizes", [(0,), (3, 0, 2), ()])
def test_without_elements_or_dimensions(sizes: tuple[int, ...]) -> None:
    x = values(*sizes)
    for function in (torch.abs, torch.sum):
        compare(function, x)
    compare(torch.add, x, x)
    compare(torch.mul, x, x)


def test_out_and_in_place() -> None:
    x, y = values(6, 5), values(6, 5)
    here, there = x.to("openreg"), y.to("openreg")
    out = torch.empty(5, 6, device="openreg").t()
    assert torch.add(here, there, out=out) is out
    torch.testing.assert_close(out.cpu(), x + y)
    resized = torch.empty(0, device="openreg")
    torch.mul(here, there, out=resized)
    torch.testing.assert_close(resized.cpu(), x * y)
    torch.abs(here, out=out)
    torch.testing.assert_close(out.cpu(), x.abs())
    changed = here.clone()
    changed[2:].add_(there[2:], alpha=2)
    changed[:, 1:].mul_(0.5)
    changed.t().sub_(1).abs_()
    expected = x.clone()
    expected[2:].add_(y[2:], alpha=2)
    expected[:, 1:].mul_(0.5)
    expected.t().sub_(1).abs_()
    torch.testing.assert_close(changed.cpu(), expected)


def test_many_dimensions() -> None:
    x = values(*[2] * 12)
    compare(lambda x: x.permute(*range(11, -1, -1)) + x, x)


@pytest.mark.parametrize("dtype", [dtype for dtype in NUMBERS if dtype != torch.int32], ids=str)
@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 2), (1, 2), (0, 1)], ids=str)
def test_sum(dtype: torch.dtype, dim: int | tuple[int, ...] | None) -> None:
    skip_without(dtype)
    tolerance = (
        {"rtol": 2e-2, "atol": 5e-1} if dtype in (torch.float16, torch.bfloat16) else {"rtol": 1e-5, "atol": 1e-4}
    )
    for sizes in ((3, 5, 7), (40, 300, 3), (2, 3, 5000)):
        for keepdim in (False, True):
            compare(
                lambda x, keepdim=keepdim: x.sum(dim=dim, keepdim=keepdim), values(*sizes, dtype=dtype), **tolerance
            )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sum_of_layouts(layout: str) -> None:
    x = values(4, 8, 33)
    view = LAYOUTS[layout]
    for dim in (None, 0, -1):
        torch.testing.assert_close(view(x.to("openreg")).sum(dim).cpu(), view(x).sum(dim), rtol=1e-5, atol=1e-5)


def test_sum_in_several_parts() -> None:
    x = torch.arange(200_001)
    assert x.to("openreg").sum().item() == x.sum().item()
    compare(lambda x: x.t().sum(0), torch.randint(-9, 9, (3, 100_000)))


def test_sum_with_out() -> None:
    x = values(6, 50)
    out = torch.empty(6, 2, device="openreg")[:, 0]
    torch.sum(x.to("openreg"), 1, out=out)
    torch.testing.assert_close(out.cpu(), x.sum(1))


PRODUCTS = [(1, 1, 1), (16, 16, 16), (17, 33, 5), (3, 100, 31), (64, 1, 64), (5, 0, 4)]
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4, torch.float64: 1e-10}


@pytest.mark.parametrize("sizes", PRODUCTS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mm_and_addmm(dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    skip_without(dtype)
    m, k, n = sizes
    a, b = values(m, k, dtype=dtype), values(k, n, dtype=dtype)
    tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    compare(torch.mm, a, b, **tolerance)
    compare(lambda a, b: b.t().mm(a.t()), a, b, **tolerance)
    for added in (values(m, n, dtype=dtype), values(n, dtype=dtype), values(m, 1, dtype=dtype), values(1, dtype=dtype)):
        compare(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), added, a, b, **tolerance)


def test_product_of_views_and_into_its_own_factor() -> None:
    a, b = values(20, 40)[1:19:2, 3:], values(30, 37)[::3].t()
    compare(torch.mm, a, b, rtol=1e-4, atol=1e-4)
    square = values(20, 20)
    here = square.to("openreg")
    torch.mm(here, here, out=here)
    torch.testing.assert_close(here.cpu(), square @ square, rtol=1e-4, atol=1e-4)
    here = square.to("openreg")
    here.addmm_(here, here)
    torch.testing.assert_close(here.cpu(), square + square @ square, rtol=1e-4, atol=1e-4)


def test_beta_zero_does_not_read_what_is_added() -> None:
    a = values(3, 3)
    compare(lambda a: torch.addmm(torch.full_like(a, float("nan")), a, a, beta=0), a, rtol=1e-5, atol=1e-5)


def test_gradients() -> None:
    def gradients(device: str) -> list[torch.Tensor]:
        torch.manual_seed(1)
        x, w = torch.randn(9, 20).to(device).requires_grad_(), torch.randn(20, 4).to(device).requires_grad_()
        ((x @ w).abs() * 3 - x[:, :4]).sum().backward()
        return [x.grad.cpu(), w.grad.cpu()]

    torch.openreg.set_fallback_policy("all")
    for here, there in zip(gradients("openreg"), gradients("cpu"), strict=True):
        torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-4)


def test_dtypes_that_are_not_native() -> None:
    torch.openreg.set_fallback_policy("all")
    for dtype in (torch.complex64, torch.bool, torch.int8, torch.uint8, torch.int16):
        x = torch.ones(5, dtype=dtype)
        compare(torch.add, x, x)
        compare(torch.mul, x, x)
        compare(torch.sum, x)
    compare(torch.add, values(4), values(4, dtype=torch.int64))
    compare(torch.abs, torch.tensor([3 + 4j]))
    compare(torch.mm, values(3, 3, dtype=torch.int64), values(3, 3, dtype=torch.int64))
    compare(lambda x: x.sum(dtype=torch.float64), values(50))
    compare(lambda x: torch.add(x, x, out=torch.empty(5, dtype=torch.float64, device=x.device)), values(5))


def test_mistakes_raise_as_on_the_cpu() -> None:
    x = values(2, 3)
    for function in (
        lambda x: x + x.t(),
        lambda x: x.mm(x),
        lambda x: torch.addmm(x.t(), x, x.t()),
        lambda x: x.sum(7),
    ):
        with pytest.raises((RuntimeError, IndexError)) as there:
            function(x)
        with pytest.raises((RuntimeError, IndexError)) as here:
            function(x.to("openreg"))
        assert str(here.value) == str(there.value)


@pytest.mark.needs("two devices")
def test_two_devices() -> None:
    x = values(30, 30)
    second = x.to("openreg:1")
    assert torch.openreg.current_device() == 0
    product = second.mm(second).abs().add(second).sum(0)
    assert product.device == second.device
    torch.testing.assert_close(product.cpu(), x.mm(x).abs().add(x).sum(0), rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="same device"):
        second.add(x.to("openreg:0"))


def test_streams() -> None:
    x = values(300, 300)
    here = x.to("openreg")
    stream = torch.Stream("openreg")
    stream.wait_stream(torch.accelerator.current_stream())
    with stream:
        results = [here.mm(here).sum(0) for _ in range(5)]
    stream.synchronize()
    for result in results:
        torch.testing.assert_close(result.cpu(), x.mm(x).sum(0), rtol=1e-3, atol=1e-3)


def test_threads() -> None:
    x = values(64, 64)
    expected = x.mm(x).abs().sum(0) + 1
    results: list[torch.Tensor] = []

    def work() -> None:
        here = x.to("openreg")
        results.extend((here.mm(here).abs().sum(0) + 1).cpu() for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    for result in results:
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_these_are_native(dtype: torch.dtype) -> None:
    skip_without(dtype)
    names = ["abs.out", "add.out", "sub.out", "mul.out", "sum.IntList_out", "fill_.Scalar"]
    names += ["mm.out", "addmm.out"] if dtype.is_floating_point else []
    assert {torch.openreg.kernel_source(f"aten::{name}", dtype) for name in names} == {"native"}


def test_kernel_source() -> None:
    source = torch.openreg.kernel_source
    rest = source("aten::angle.out")
    assert source("aten::add.Tensor") == source("aten::add.out", torch.int32) == "native"
    assert source("aten::mm.out", torch.int64) in ("host", "fallback")
    assert source("aten::abs.out", torch.complex64) in ("host", "fallback")
    assert source("aten::reshape") == "composite"
    assert source("aten::view") == source("aten::empty.memory_format") == "backend"
    assert rest == "fallback"
    with pytest.raises(RuntimeError, match="no operator is called 'aten::nothing'"):
        source("aten::nothing")
    with pytest.raises(RuntimeError, match="no operator is called ''"):
        source("")
    with pytest.raises(TypeError, match=r"dtype is a torch\.dtype, such as torch\.float32, got 'float32'"):
        source("aten::add.out", "float32")


def test_sums_down_many_rows_stay_exact() -> None:
    x = torch.full((100_000, 1024), 0.1)
    here = x.to("openreg").sum(0).cpu()
    torch.testing.assert_close(here, x.double().sum(0).float(), rtol=2e-6, atol=0)


def test_offsets_that_fit_an_int_only_one_by_one() -> None:
    count = 2**30 + 8
    if torch.openreg.mem_get_info()[1] < 2**32:
        pytest.skip("the device has less than 4 GiB")
    base = torch.empty(2**32 - 2**24, dtype=torch.uint8, device="openreg").view(torch.float16)
    view = base.as_strided((2, 2), (count - 2**23, count - 2**23 + 1))
    for row in range(2):
        for column in range(2):
            view[row, column] = 1 + row + 2 * column
    assert view.sum(1).tolist() == [4.0, 6.0]


def test_factors_that_count_nothing_are_not_read() -> None:
    factor = torch.full((2, 2), float("nan"))
    compare(lambda a, b, c: torch.addmm(a, b, c, alpha=0), torch.ones(3), factor, torch.ones(2, 3))
