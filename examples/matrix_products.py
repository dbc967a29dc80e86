"""Products of matrices: which of them BLAS computes, and the results of all against the CPU's.

A product that BLAS does not take goes to a library that waits in the first call with a dtype. So what does not wait in
a process that has multiplied nothing yet was computed by BLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda matrix: matrix.contiguous(),
    "columns": lambda matrix: matrix.t().contiguous().t(),
    "part": lambda matrix: torch.cat([matrix, matrix], 1)[:, : matrix.shape[1]],
    "every second": lambda matrix: torch.stack([matrix, matrix], -1)[..., 0],
    "one row for all": lambda matrix: matrix[:1].expand(matrix.shape),
}
FOR_BLAS = ["rows", "columns", "part"]
WRITABLE = [name for name in LAYOUTS if name != "one row for all"]
SIZES = [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1)]
EMPTY = [(3, 0, 5), (0, 4, 5)]
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]

# The output, the output as a factor, a matrix that begins before it, one that begins within it, and one elsewhere.
Write = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
WRITES: dict[str, Write] = {
    "mm, the first": lambda out, _, before, __, other: torch.mm(before, other, out=out),
    "mm, the second": lambda out, _, __, after, other: torch.mm(other, after, out=out),
    "addmm, the first": lambda out, _, __, after, other: torch.addmm(other, after, other, beta=2, out=out),
    "addmm, the second": lambda out, _, before, __, other: torch.addmm(other, other, before, alpha=2, out=out),
    "addmm, the addend": lambda out, _, before, __, other: torch.addmm(before, other, other, beta=3, alpha=2, out=out),
    "mm, squared": lambda out, itself, *_: torch.mm(itself, itself, out=out),
    "addmm, squared": lambda out, itself, _, __, other: torch.addmm(itself, itself, other, out=out),
    "addmm, in place": lambda out, _, __, ___, other: out.addmm_(other, other, beta=3, alpha=2),
}


Call = tuple[str, Callable[[], Tensor]]


def calls(dtype: torch.dtype, sizes: tuple[int, int, int], layouts: tuple[str, ...]) -> list[Call]:
    """A product, and one with an addend in the output's layout, that are not computed yet."""
    m, k, n = sizes
    pairs = zip(layouts, ((m, k), (k, n), (m, n)), strict=True)
    a, b, out = (LAYOUTS[layout](torch.ones(size, dtype=dtype, device="openreg")) for layout, size in pairs)
    name = f"of {sizes}, {dtype}, {layouts}"
    return [
        (f"mm {name}", lambda: torch.mm(a, b, out=out)),
        (f"addmm {name}", lambda: torch.addmm(out.clone(), a, b, beta=2, out=out)),
    ]


def waiting(products: list[Call], nanoseconds: int) -> list[str]:
    """The products that return only after the work queued before them: a kernel that sleeps for so long."""
    stream = torch.accelerator.current_stream()
    found = []
    torch.openreg._sleep(nanoseconds)
    for name, call in products:
        call()
        if stream.query():
            found.append(name)
            torch.openreg._sleep(nanoseconds)
    return found


def agree(sizes: tuple[int, int, int], of_a: str, of_b: str, of_added: str, of_out: str) -> bool:
    """Whether the device's products of matrices with these layouts are the CPU's."""
    m, k, n = sizes
    a, b, added = (torch.randn(size) for size in ((m, k), (k, n), (m, n)))
    a, b, added = LAYOUTS[of_a](a), LAYOUTS[of_b](b), LAYOUTS[of_added](added)
    there = [LAYOUTS[of](matrix.to("openreg")) for of, matrix in ((of_added, added), (of_a, a), (of_b, b))]
    out = LAYOUTS[of_out](torch.full((m, n), 7.0, device="openreg"))
    both = torch.addmm(*there, beta=2, alpha=3, out=out).cpu()
    alone = torch.mm(*there[1:], out=out).cpu()
    return torch.allclose(both, added * 2 + (a @ b) * 3, atol=1e-5) and torch.allclose(alone, a @ b, atol=1e-5)


def written(write: Write, device: str, *, apart: bool) -> list[list[float]]:
    """What a product writes to its output, which shares memory with an argument, or is ``apart``."""
    numbers = torch.arange(24.0, device=device)
    out, before, after = (numbers[first : first + 4].view(2, 2) for first in (8, 5, 11))
    itself = out
    if apart:
        out, before, after = out.clone(), before.clone(), after.clone()
    other = torch.tensor([[1.0, 2.0], [3.0, 5.0]], device=device)
    result: list[list[float]] = write(out, itself, before, after, other).tolist()
    return result


def exact(dtype: torch.dtype) -> bool:
    """Whether products of small numbers are right, also of factors that are conjugated or negated when read."""
    ones, twos = torch.ones(3, 4).to(dtype), torch.full((4, 5), 2).to(dtype)
    sums = torch.addmm(ones[:, :1].to("openreg"), ones.to("openreg"), twos.to("openreg"))
    right = torch.equal(sums.cpu(), torch.full((3, 5), 9).to(dtype))
    if dtype.is_complex:
        z = torch.tensor([[1 + 2j]], dtype=dtype, device="openreg")
        right &= (z @ z.conj()).item() == (z.conj() @ z).item() == 5 and (z.conj().imag @ z.real).item() == -2
    return right


torch.manual_seed(0)
fitting = [
    call
    for dtype, sizes, layouts in (
        *product(DTYPES[:1], SIZES, product(FOR_BLAS, repeat=3)),
        *product(DTYPES[1:], SIZES[:1], product(FOR_BLAS, repeat=3)),
    )
    for call in calls(dtype, sizes, layouts)
]
print(f"{len(fitting)} products that BLAS takes; waiting for the library: {waiting(fitting, 1_000_000_000)}")
others = [
    calls(torch.float32, SIZES[0], ("every second", "rows", "rows"))[0],
    calls(torch.float32, SIZES[0], ("one row for all", "rows", "rows"))[1],
    calls(torch.float16, SIZES[0], ("rows", "rows", "rows"))[0],
    calls(torch.int64, SIZES[0], ("rows", "rows", "rows"))[1],
]
print(f"{len(others)} products that it does not take; waiting: {len(waiting(others, 50_000_000))}")
cases = list(product([*SIZES, *EMPTY], LAYOUTS, LAYOUTS, LAYOUTS, WRITABLE))
print(f"{len(cases)} products of layouts; wrong: {[case for case in cases if not agree(*case)]}")
shared = [
    name
    for name, write in WRITES.items()
    if written(write, "openreg", apart=False) != written(write, "cpu", apart=True)
]
print(f"{len(WRITES)} products over shared memory; wrong: {shared}")
dtypes = [torch.float64, torch.complex64, torch.complex128, torch.float16, torch.int64]
print(f"{len(dtypes)} dtypes; wrong: {[dtype for dtype in dtypes if not exact(dtype)]}")
