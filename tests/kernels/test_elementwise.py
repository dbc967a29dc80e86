"""Hand-written kernels over a TensorIterator: add, where, fill and the reductions."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from tests.layouts import LAYOUTS, to_device, values
from tests.offers import DEVICES

pytestmark = pytest.mark.skipif(
    "aten::where.self" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
    reason="this build has no kernels",
)
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
Call = Callable[..., torch.Tensor]


def check(call: Call, *tensors: torch.Tensor, exact: bool = True) -> None:
    """Checks that the call gives the same on the device as on the CPU, without falling back."""
    torch.openreg.reset_fallback_stats()
    expected, actual = call(*tensors), call(*(to_device(t) for t in tensors))
    assert torch.openreg.fallback_stats() == {}
    assert (actual.device, actual.dtype) == (torch.device("openreg:0"), expected.dtype)
    assert actual.stride() == expected.stride()
    zero_or_usual = 0.0 if exact else None
    torch.testing.assert_close(actual.cpu(), expected, rtol=zero_or_usual, atol=zero_or_usual, equal_nan=True)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, *COMPLEX], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_add(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype)
    check(lambda t: t + t, x)
    check(lambda t: t + 3, x)
    check(lambda t: 3 - t, x)
    check(lambda t: t + t.reshape(-1)[:1], x) if x.numel() else None
    check(lambda t: torch.add(t, t, alpha=2), x, exact=False)
    check(lambda t: t.clone().add_(1), x)


@pytest.mark.parametrize("other", [torch.uint8, torch.int64, torch.float16, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.bfloat16, torch.float32], ids=str)
def test_operands_of_two_dtypes(dtype: torch.dtype, other: torch.dtype) -> None:
    x, y = values((3, 4), torch.float32).abs().to(dtype), values((4,), torch.float32).abs().to(other)
    check(torch.add, x, y)
    check(lambda a, b: torch.where(a.bool(), a, b), x, y)
    check(torch.atan2 if not other.is_complex else torch.mul, x, y, exact=False)
    check(torch.eq, x, y)
    check(lambda a, b: torch.add(a, b, out=torch.zeros(0, dtype=torch.complex128, device=a.device)), x, y)
    check(lambda a, b: torch.mul(a, b, out=torch.zeros(0, dtype=torch.complex128, device=a.device)), x, y)


@pytest.mark.parametrize("other", [torch.bool, *INTEGERS, *FLOATS, *COMPLEX], ids=str)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float16, torch.float64, torch.complex64], ids=str)
def test_rows_of_two_dtypes(dtype: torch.dtype, other: torch.dtype) -> None:
    x, y = values((3, 700), torch.float32).abs().to(dtype), values((3, 700), torch.float32).abs().to(other)
    check(torch.add, x, y)
    check(lambda a, b: a.T[::2] + b.T[1::2], x, y)
    check(lambda a, b: a[:, :1] + b, x, y)
    check(lambda a, b: a + b[0].expand_as(a), x, y)
    if torch.can_cast(other, dtype):
        check(lambda a, b: a.clone()[:, ::3].add_(b[:, :234]), x, y)
        check(lambda a, b: a.clone().add_(b), x, y)
        check(lambda a, b: torch.add(b, b, out=torch.zeros(3, 1400, dtype=a.dtype, device=a.device)[:, ::2]), x, y)


def test_a_byte_that_is_no_flag() -> None:
    flags = torch.tensor([0, 1, 2, 255] * 100, dtype=torch.uint8).view(torch.bool)
    check(lambda t: t + torch.zeros_like(t, dtype=torch.int32), flags)


@pytest.mark.parametrize("number", [2.1, 1e-4, -7.77])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_number_keeps_its_digits(dtype: torch.dtype, number: float) -> None:
    x = values((50,), dtype) / 7
    check(lambda t: t * number, x)
    check(lambda t: t / number, x)
    check(lambda t: t + number, x)
    check(lambda t: t * torch.tensor(number, dtype=torch.float64), x)
    check(lambda t: t * t[3:4].double(), x)


def test_a_number_is_taken_as_it_is_at_the_call() -> None:
    x, number, half = torch.zeros(3, device="openreg"), torch.tensor(2.0), torch.tensor(2.0, dtype=torch.float16)
    torch.openreg._sleep(20_000_000)
    results = [x + number, torch.where(x > 1, x, number), torch.maximum(x, number), torch.maximum(x, half)]
    number.fill_(7)
    half.fill_(7)
    assert [result.tolist() for result in results] == [[2.0] * 3] * 4


def test_views_that_the_iterator_of_pytorch_only_borrows() -> None:
    """The views of glu are gone when the kernel is launched, so it must not access them."""
    for rows in range(2, 40, 2):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(torch.nn.functional.glu(x.to("openreg"), 0).cpu(), torch.nn.functional.glu(x, 0))


def test_integers_wrap_around_and_booleans_add_up() -> None:
    for dtype in INTEGERS:
        x = torch.full((5,), torch.iinfo(dtype).max, dtype=dtype)
        check(lambda t: t + t, x)
        check(lambda t: torch.add(t, t, alpha=100), x)
    flags = torch.tensor([True, False, True])
    check(lambda t: t + t, flags)
    check(lambda t: torch.add(t, t, alpha=False), flags)


def test_what_cannot_be_converted_is_refused_at_the_call() -> None:
    x = torch.ones(3, device="openreg")
    small = torch.zeros(3, dtype=torch.float8_e5m2, device="openreg")
    assert torch.add(x, 1, out=small).float().tolist() == [2.0] * 3  # the library converts every dtype
    with pytest.raises(NotImplementedError, match="\"add_stub\" not implemented for 'UInt16'"):
        x.to(torch.uint16) + x.to(torch.uint16)
    assert torch.exp(x, out=small).float().tolist() == [2.5] * 3
    assert x.add_(1).tolist() == [2.0] * 3


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS, *COMPLEX], ids=str)
def test_where_and_fill(dtype: torch.dtype) -> None:
    x = values((4, 5), torch.float32).to(dtype)
    condition = values((5,), torch.float32) > 0
    check(torch.where, condition, x, x.flip(0))
    check(lambda c, t: torch.where(c, t, 1), condition, x)
    check(lambda c, t: torch.where(c, t[0], t[:1, 0]), condition.view(5, 1), x)
    check(lambda t: t.clone().fill_(1), x)
    check(lambda t: t.clone()[:, 1::2].zero_(), x)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_reductions_over_every_dimension(dim: int | tuple[int, ...], order: tuple[int, ...]) -> None:
    x = values((3, 17, 35), torch.float32).permute(order)
    for function in (torch.sum, torch.mean, torch.amax, torch.amin):
        exact = function in (torch.amax, torch.amin)
        check(lambda t: function(t, dim), x, exact=exact)  # noqa: B023
        check(lambda t: function(t[:, ::2], dim, keepdim=True), x, exact=exact)  # noqa: B023


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS, *COMPLEX], ids=str)
def test_reductions_of_every_dtype(dtype: torch.dtype) -> None:
    x = values((9, 33), torch.float32).to(dtype)
    for dim in (0, 1):
        check(lambda t: t.sum(dim), x, exact=not dtype.is_floating_point)  # noqa: B023
        check(lambda t: t.sum(dim, dtype=torch.float64), x.real if dtype.is_complex else x)  # noqa: B023
        if not dtype.is_complex:
            check(lambda t: t.amax(dim), x)  # noqa: B023
            check(lambda t: t.amin(dim), x)  # noqa: B023
        if dtype.is_floating_point or dtype.is_complex:
            check(lambda t: t.mean(dim), x, exact=False)  # noqa: B023


def test_reductions_of_little_and_of_much() -> None:
    for shape in ((), (1,), (0,), (0, 3), (3, 0)):
        check(lambda t: t.sum(), torch.ones(shape))
        check(lambda t: t.sum(0), torch.ones(shape))
    check(lambda t: torch.empty(0, 3, device=t.device).mean(0), torch.ones(1))
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert torch.ones(5000, dtype=dtype, device="openreg").mean().item() == 1.0
        assert torch.ones(2048, dtype=dtype, device="openreg").expand(3, 2048).sum().item() == 6144
    nan = torch.tensor([1.0, float("nan"), 3.0])
    for t in (nan, nan.flip(0), nan.expand(2, 3)):
        check(torch.amax, t)
        check(torch.amin, t)
    with pytest.raises(IndexError, match=r"amax\(\): Expected reduction dim 0 to have non-zero size"):
        torch.empty(0, 3, device="openreg").amax(0)


def test_on_two_devices_in_several_threads() -> None:
    wrong = []

    def work(device: str) -> None:
        with torch.openreg.device(device):
            x = torch.arange(1000.0, device=device)
            for i in range(50):
                y = torch.where(x > i, x + i, x.half().exp().float().sum())
                if y.device != x.device or y[-1].item() != 999 + i:
                    wrong.append((device, i))

    threads = [threading.Thread(target=work, args=(DEVICES[number % len(DEVICES)],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint64, torch.float8_e5m2, torch.float8_e8m0fnu], ids=str)
def test_where_chooses_among_all_dtypes(dtype: torch.dtype) -> None:
    mask, yes, no = torch.tensor([True, False, True]), torch.tensor([1, 2, 4]), torch.tensor([8, 16, 32])
    expected = torch.where(mask, yes.to(dtype), no.to(dtype))
    actual = torch.where(mask.to("openreg"), yes.to("openreg", dtype), no.to("openreg", dtype))
    assert actual.dtype == dtype
    assert actual.cpu().float().equal(expected.float())


def test_no_elements_whose_strides_reach_back() -> None:
    none = torch.ones(1, device="openreg")[1::2]
    none *= -1.0
    assert (torch.ones(3, 4, device="openreg")[:, 4::2] / torch.ones(3, 1, device="openreg")).shape == (3, 0)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["mul", "atan2", "igamma", "gcd", "bitwise_and", "remainder", "pow", "maximum", "lt"])
def test_no_elements_of_a_dtype_that_the_loop_has_not(name: str, dtype: torch.dtype) -> None:
    """A loop over no elements refuses the same dtypes as over some, also where an operand is broadcast to none."""

    def outcome(*operands: torch.Tensor) -> object:
        try:
            result = getattr(torch, name)(*operands)
        except (RuntimeError, NotImplementedError) as error:
            return type(error), str(error)
        return result.dtype, result.shape

    nowhere = torch.empty(0).expand(2, 0, 0)[0]
    for first in (torch.empty(0, 3), torch.ones(1, 3), torch.ones(()), nowhere):
        for second in (torch.empty(0, 3), torch.ones(3), torch.ones(()), torch.ones(1, 1)):
            if (first.numel() and second.numel()) or (first is nowhere and second.numel() != 1):
                continue
            operands = [
                (x.to(one), y.to(dtype)) for x, y in ((first, second), (second, first)) for one in (x.dtype, dtype)
            ]
            for x, y in operands:
                assert outcome(x.to("openreg"), y.to("openreg")) == outcome(x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("count", [1, 31, 32, 33, 127, 128, 129, 300])
def test_reductions_around_a_block(count: int, dtype: torch.dtype) -> None:
    """Rows and columns that are just shorter or longer than what is reduced at once, adjacent and not."""
    x = torch.randint(-1000, 1000, (2 * count, 3, 2 * count)).to(dtype)
    views = [x[:count, 0, 0], x[:3, 0, :count], x[:count, 0, :3].t(), x[:, 0, ::2], x[::2, :, 1], x[:7, :2, :count]]
    for view in views:
        for dim in range(view.dim()):
            for function in (torch.amax, torch.amin):
                assert function(view.to("openreg"), dim).cpu().equal(function(view, dim))
            if dtype.is_floating_point:
                actual = torch.mean(view.to("openreg"), dim).cpu()
                torch.testing.assert_close(actual, view.double().mean(dim).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_nan_anywhere_is_the_extreme(dtype: torch.dtype) -> None:
    for count in (5, 70):
        for place in range(count):
            x = torch.arange(count).to(dtype)
            x[place] = torch.nan
            for shape, dim in (((count,), 0), ((count, 1), 0), ((1, count), 1)):
                there = x.view(shape).to("openreg")
                assert there.amax(dim).isnan().all()
                assert there.amin(dim).isnan().all()
    infinite = torch.full((40,), -torch.inf, dtype=dtype, device="openreg")
    assert infinite.amax().item() == -torch.inf
    assert (-infinite).amin().item() == torch.inf


def test_a_mean_is_no_integer() -> None:
    for dtype in (torch.int64, torch.bool):
        with pytest.raises(RuntimeError, match="mean: expected an output of a floating point or complex dtype, but"):
            torch.mean(torch.ones(3, 4, device="openreg"), 0, out=torch.empty(0, dtype=dtype, device="openreg"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_mean_down_a_long_column(dtype: torch.dtype) -> None:
    count = 2**24 + 2**23  # a float that counts ones stops at 2^24
    assert torch.ones(count, 2, dtype=dtype, device="openreg").mean(0).tolist() == [1, 1]


def test_alpha_must_fit_the_operands_not_the_output() -> None:
    a, b = (torch.tensor([1, 2], device="openreg") for _ in range(2))
    for function in (torch.add, torch.sub):
        with pytest.raises(RuntimeError, match="For integral input tensors, argument alpha must not be a floating"):
            function(a, b, alpha=1.5, out=torch.empty(2, device="openreg"))
        assert (
            function(a, b, alpha=2, out=torch.empty(2, device="openreg")).tolist()
            == function(a.cpu(), b.cpu(), alpha=2).tolist()
        )


def test_filling_from_a_tensor() -> None:
    x = torch.zeros(2, 3, device="openreg")
    for value in (torch.tensor(2.5), torch.tensor(3), torch.tensor(4.0, device="openreg"), x[0, 0] + 5):
        assert x.fill_(value).tolist() == [[value.item()] * 3] * 2
    assert x.fill_(x[1, 1]).tolist() == [[5.0] * 3] * 2
    with pytest.raises(RuntimeError, match="fill_ only supports 0-dimension value tensor"):
        x.fill_(torch.ones(2, device="openreg"))


def test_views_further_on_in_memory_that_was_freed() -> None:
    base = torch.ones(8, device="openreg")
    first, second, one = base[:4], base[4:], base[4]
    base.untyped_storage().resize_(0)
    text = "has no memory: its storage was resized to 0; give it its size again before the tensor is used"
    for call in (first.abs, lambda: second.to("cpu"), one.item):
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(RuntimeError, match="16 bytes there; if the storage of the tensor was resized"):
        second.abs()


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_power_of_two_beyond_the_range_of_the_dtype(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1e-3, 1.0, torch.inf, 3e38, 1e-40]).to(dtype)
    exponents = torch.tensor([2000, 20, -26, -2000, -250, 140])
    expected = torch.ldexp(x, exponents)
    assert torch.equal(torch.ldexp(x.to("openreg"), exponents.to("openreg")).cpu(), expected)
    mantissa, power = torch.frexp(x[[1, 2, 4, 5]])
    assert torch.equal(torch.ldexp(mantissa.to("openreg"), power.to("openreg")).cpu(), x[[1, 2, 4, 5]])
    assert torch.equal(x.to("openreg").ldexp_(torch.tensor(3, device="openreg")).cpu(), torch.ldexp(x, torch.tensor(3)))


@pytest.mark.parametrize("place", ["cpu", "openreg"])
def test_a_number_of_eight_bits_beside_others(place: str) -> None:
    number = torch.full((), 1.5).to(torch.float8_e5m2)
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([1.0, -2.0, 4.0], dtype=dtype)
        for function in (torch.add, torch.sub, torch.mul):
            assert torch.equal(function(x.to("openreg"), number.to(place)).cpu(), function(x, number))


def test_bytes_that_are_no_bools_count_as_true() -> None:
    """PyTorch reads them so: c10/util/Load.h."""
    made = torch.tensor([[2, 1, 3], [255, 4, 0]], dtype=torch.uint8)
    host, here = made.view(torch.bool), made.to("openreg").view(torch.bool)
    for reduce in (torch.amin, torch.amax, torch.all, torch.any, torch.sum):
        for dim in (0, 1):
            assert torch.equal(reduce(here, dim).cpu(), reduce(host, dim))
    x = torch.arange(6.0).view(2, 3)
    assert torch.equal(torch.where(here, x.to("openreg"), 9).cpu(), torch.where(host, x, 9))
    assert torch.equal((here.t() + here.t()).cpu(), host.t() + host.t())
