"""mm and addmm: BLAS products over dtypes, sizes, layouts and added terms, and what BLAS does not support."""

import itertools
from collections.abc import Callable

import pytest
import torch

from tests.conftest import RunProcess
from tests.offers import DEVICES

Layout = Callable[[torch.Tensor], torch.Tensor]
LAYOUTS: dict[str, Layout] = {
    "rows": lambda t: t.contiguous(),
    "columns": lambda t: t.t().contiguous().t(),
    "every second": lambda t: torch.stack([t, t], -1)[..., 0],
    "part of rows": lambda t: torch.cat([t, t], 1)[:, : t.shape[1]],
    "one row for all": lambda t: t[:1].expand(t.shape) if len(t) > 1 else t,
}
# An output must not overlap itself.
OUTPUTS = {name: layout for name, layout in LAYOUTS.items() if name != "one row for all"}
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float16, torch.int64]


def numbers(*sizes: int, dtype: torch.dtype) -> torch.Tensor:
    """Small integers, also as floats: their products are exact in every dtype."""
    return torch.randint(-3, 4, sizes).to(dtype) * (1 + 1j if dtype.is_complex else 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "sizes", [(3, 4, 5), (1, 3, 4), (3, 1, 4), (4, 3, 1), (1, 1, 1), (0, 3, 4), (3, 0, 4), (3, 4, 0)]
)
def test_products(dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    for left, right, into in itertools.product(LAYOUTS.values(), LAYOUTS.values(), OUTPUTS.values()):
        a, b = left(numbers(rows, inner, dtype=dtype)), right(numbers(inner, columns, dtype=dtype))
        da, db = left(a.to("openreg")), right(b.to("openreg"))
        # The old contents must not count: 0 * nan is nan.
        empty = torch.full((rows, columns), float("nan")) if dtype.is_floating_point else torch.full((rows, columns), 9)
        out = into(empty.to(dtype).to("openreg"))
        assert torch.equal(torch.mm(da, db).cpu(), a @ b)
        assert torch.equal(torch.mm(da, db, out=out).cpu(), a @ b)


# The library waits in the first call with a dtype, which BLAS need not know: what does not wait, BLAS computes.
WAITING = """
    import itertools
    import torch

    stream = torch.openreg.current_stream()
    layouts = {
        "rows": lambda t: t,
        "columns": lambda t: t.t().contiguous().t(),
        "part of rows": lambda t: torch.cat([t, t], 1)[:, : t.shape[1]],
        "every second": lambda t: torch.stack([t, t], -1)[..., 0],
    }

    def waiting(names, dtypes):
        found = []
        for dtype, (name, a), b, out in itertools.product(dtypes, names.items(), names.values(), names.values()):
            for sizes in ((3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1)):
                shapes = sizes[:2], sizes[1:], sizes[::2]
                left, right, to = (f(torch.ones(s, dtype=dtype, device="openreg")) for f, s in zip((a, b, out), shapes))
                for product in (lambda: torch.mm(left, right, out=to), lambda: to.addmm_(left, right)):
                    if stream.query():
                        torch.openreg._sleep(500_000_000)
                    product()
                    if stream.query():
                        found.append((name, sizes, dtype))
        return found

    every_second = {"every second": layouts.pop("every second")}
    print(waiting(layouts, [torch.float32]))
    print(waiting({"rows": layouts["rows"]}, [torch.float64, torch.complex64, torch.complex128]))
    print(len(waiting(every_second, [torch.float32])), len(waiting({"rows": layouts["rows"]}, [torch.int64])))
"""


@pytest.mark.long
@pytest.mark.needs("queue", "host kernels")
def test_blas_computes_what_it_can(run_process: RunProcess) -> None:
    ran = run_process(WAITING)
    assert ran.stdout.splitlines() == ["[]", "[]", "2 2"], ran.stderr


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 5), (3, 1), (3, 5)], ids=str)
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (2, -1), (0, 1), (3, 0)])
def test_products_with_something_added(dtype: torch.dtype, shape: tuple[int, ...], beta: int, alpha: int) -> None:
    a, b, added = numbers(3, 4, dtype=dtype), numbers(4, 5, dtype=dtype), numbers(*shape, dtype=dtype)
    expected = torch.addmm(added, a, b, beta=beta, alpha=alpha)
    da, db, dadded = a.to("openreg"), b.to("openreg"), added.to("openreg")
    assert torch.equal(torch.addmm(dadded, da, db, beta=beta, alpha=alpha).cpu(), expected)
    for layout in OUTPUTS.values():
        out = layout(torch.zeros(3, 5, dtype=dtype, device="openreg"))
        assert torch.equal(torch.addmm(dadded, da, db, beta=beta, alpha=alpha, out=out).cpu(), expected)
        if shape == (3, 5):
            in_place = layout(dadded.clone())
            assert torch.equal(in_place.addmm_(da, db, beta=beta, alpha=alpha).cpu(), expected)


def test_what_is_multiplied_by_zero_is_not_read() -> None:
    a, b = numbers(3, 4, dtype=torch.float32).to("openreg"), numbers(4, 5, dtype=torch.float32).to("openreg")
    nan = torch.full((3, 5), float("nan"), device="openreg")
    assert torch.equal(torch.addmm(nan, a, b, beta=0), a @ b)
    assert torch.equal(nan.addmm_(a, b, beta=0), a @ b)


@pytest.mark.parametrize("lazy", [torch.conj, torch._neg_view], ids=["conj", "neg"])
def test_lazy_bits_count(lazy: Callable[[torch.Tensor], torch.Tensor]) -> None:
    a, b = numbers(3, 3, dtype=torch.complex64), numbers(3, 3, dtype=torch.complex64)
    da, db = a.to("openreg"), b.to("openreg")
    for x, y, dx, dy in ((lazy(a), b, lazy(da), db), (a, lazy(b), da, lazy(db))):
        assert torch.equal((dx @ dy).cpu(), x @ y)
        assert torch.equal(torch.addmm(dx, dx, dy).cpu(), torch.addmm(x, x, y))


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128, torch.bfloat16, torch.int64], ids=str)
def test_an_output_may_be_a_factor(dtype: torch.dtype) -> None:
    """On the CPU the result depends on the processor."""
    a, other = numbers(3, 3, dtype=dtype), numbers(3, 3, dtype=dtype)
    for left, right in ((True, True), (True, False), (False, True)):
        b, c = a.to("openreg"), other.to("openreg")
        result = torch.mm(b if left else c, b if right else c, out=b)
        torch.testing.assert_close(result.cpu(), (a if left else other) @ (a if right else other))
    b = a.to("openreg")
    torch.testing.assert_close(torch.addmm(c, b, c, out=b, beta=2).cpu(), torch.addmm(other, a, other, beta=2))


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("size", [3, 40])
def test_an_output_may_be_a_factor_of_many_products_or_of_one_with_a_vector(dtype: torch.dtype, size: int) -> None:
    """On the CPU the results are wrong."""
    batch, row = numbers(2, size, size, dtype=dtype), numbers(size, dtype=dtype)
    ones = torch.ones(2, size, size).to(dtype)
    other, memory = ones.to("openreg"), torch.cat([batch.flatten(), batch.flatten()]).to("openreg")

    def begins(at: int) -> torch.Tensor:
        return memory[at : at + batch.numel()].view_as(batch)

    x, y, z = (batch.to("openreg") for _ in range(3))
    torch.testing.assert_close(torch.bmm(x, x, out=x).cpu(), torch.bmm(batch, batch))
    torch.testing.assert_close(y.baddbmm_(other, y, beta=2).cpu(), torch.baddbmm(batch, ones, batch, beta=2))
    torch.testing.assert_close(torch.baddbmm(other, z, other, out=z).cpu(), torch.baddbmm(ones, batch, ones))
    expected = torch.bmm(begins(1).cpu(), ones)
    torch.testing.assert_close(torch.bmm(begins(1), other, out=begins(0)).cpu(), expected)
    expected = torch.baddbmm(begins(3).cpu(), ones, ones)
    torch.testing.assert_close(torch.baddbmm(begins(3), other, other, out=begins(2)).cpu(), expected)
    v, w = row.to("openreg"), row.to("openreg")
    torch.testing.assert_close(torch.mv(other[0], v, out=v).cpu(), ones[0].mv(row))
    torch.testing.assert_close(w.addmv_(other[0], w, alpha=2).cpu(), torch.addmv(row, ones[0], row, alpha=2))


@pytest.mark.needs("host kernels")
def test_wrong_arguments_are_refused_in_the_words_of_the_cpu() -> None:
    def refused(device: str, sizes: tuple[int, ...], dtype: torch.dtype = torch.float32, **factors: complex) -> str:
        ones = torch.ones(2, 2, device=device)
        with pytest.raises(RuntimeError) as raised:
            torch.addmm(torch.ones(sizes, device=device, dtype=dtype), ones, ones, **factors)
        return str(raised.value)

    for sizes, dtype, factors in (
        ((3,), torch.float32, {}),
        ((3, 2), torch.float32, {"beta": 0}),
        ((1, 2, 2), torch.float32, {}),
        ((2, 2), torch.float64, {}),
        ((2, 2), torch.float32, {"beta": 1j}),
        ((2, 2), torch.float32, {"alpha": 1j}),
    ):
        assert refused("openreg", sizes, dtype, **factors) == refused("cpu", sizes, dtype, **factors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
def test_gradients(dtype: torch.dtype) -> None:
    def gradients(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        tensors = [torch.randn(*sizes, dtype=dtype).to(device).requires_grad_() for sizes in ((5,), (3, 4), (4, 5))]
        loss = torch.addmm(tensors[0], tensors[1], tensors[2], beta=2, alpha=3).abs().sum()
        return [gradient.cpu() for gradient in torch.autograd.grad(loss, tensors)]

    for on_device, expected in zip(gradients("openreg"), gradients("cpu"), strict=True):
        torch.testing.assert_close(on_device, expected)


def test_products_on_two_devices_and_on_streams() -> None:
    a, b = numbers(64, 64, dtype=torch.float32), numbers(64, 64, dtype=torch.float32)
    for device in DEVICES:
        da, db = a.to(device), b.to(device)
        stream = torch.Stream(device)
        torch.accelerator.synchronize(device)
        with stream:
            products = [da @ db for _ in range(20)]
        stream.synchronize()
        assert all(torch.equal(product.cpu(), a @ b) for product in products)
        assert products[0].device == torch.device(device)
